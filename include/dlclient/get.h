#ifndef DLCLIENT_GET_H
#define DLCLIENT_GET_H

#include <stddef.h>
#include <stdint.h>

#include "client.h"
#include "info.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

DLC_BEGIN_DECLS

/** How to map a tensor. */
enum dlc_access {
  DLC_ACCESS_READ = 1,    /**< shared, read-only; the kernel enforces it (default) */
  DLC_ACCESS_PRIVATE = 2, /**< writable; writes are seen by nobody else */
  DLC_ACCESS_SHARED = 3,  /**< shared and writable; DLC_MUTABLE tensors only */
};

/** How to get. Start from DLC_GET_OPTIONS_INIT; zero means default. */
struct dlc_get_options {
  size_t struct_size;
  uint32_t access;     /**< enum dlc_access */
  uint32_t flags;      /**< 0 */
  uint64_t version;    /**< this version or none; 0: the newest */
  uint64_t newer_than; /**< only a version above this; 0: any */
  int32_t timeout_ms;  /**< wait for it: 0 never, -1 without limit */
  uint32_t reserved;   /**< 0 */
};

#define DLC_GET_OPTIONS_INIT                         \
  {                                                  \
    sizeof(struct dlc_get_options), 0, 0, 0, 0, 0, 0 \
  }

/**
 * Get a tensor by name, without a copy.
 *
 * The bytes are shared with the producer; the cost does not depend on their
 * number. What is got is a snapshot: it stays as it is while it is held, whatever
 * is published under the name afterwards.
 *
 * @param[in]  client      open connection
 * @param[in]  name        as it was published
 * @param[in]  options     NULL for the defaults
 * @param[out] ret_tensor  untouched unless 0 is returned
 * @param[out] reterr      filled on failure; may be NULL
 *
 * @par Layout
 * Shape as published; strides count elements and are always filled in. `data`
 * points at element zero, 256-byte aligned unless the layout was kept;
 * `byte_offset` is 0; device is kDLCPU 0. If a dimension is 0, `data` is NULL.
 * flags: READ_ONLY for DLC_ACCESS_READ, IS_COPIED for DLC_ACCESS_PRIVATE,
 * IS_SUBBYTE_TYPE_PADDED as published.
 *
 * @par Ownership
 * The caller owns `*ret_tensor` and calls its `deleter` exactly once: from any
 * thread, also after dlc_close(), in a forked child or at exit. Until then the
 * daemon keeps the bytes, even if the producer dies.
 *
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_NOT_FOUND     no such tensor or version, or it is not yours to get
 * @retval -DLC_E_TIMEOUT       none came within timeout_ms, or the daemon did not answer
 * @retval -DLC_E_DENIED        DLC_ACCESS_SHARED, and the mode does not grant you w
 * @retval -DLC_E_UNSUPPORTED   DLC_ACCESS_SHARED, and it is not mutable
 * @retval -DLC_E_INVALID       an option is out of range
 * @retval -DLC_E_NAME          the name breaks the grammar
 * @retval -DLC_E_QUOTA         this user holds as many leases as it may
 * @retval -DLC_E_BUSY          too many calls of this process wait already
 * @retval -DLC_E_DISCONNECTED  the daemon went away
 * @retval -DLC_E_NO_DAEMON     nothing listens at the socket
 * @retval -DLC_E_PROTOCOL      the daemon sent memory that is not sealed as it must be
 * @retval -DLC_E_NO_MEMORY     out of memory
 * @retval -DLC_E_SYSTEM        mapping failed; os_errno says why
 * @retval -DLC_E_FORKED        the client belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_get(struct dlc_client *client, const char *name,
                                 const struct dlc_get_options *options,
                                 struct DLManagedTensorVersioned **ret_tensor,
                                 struct dlc_error *reterr);

/**
 * As dlc_get(), in DLPack's form without a version.
 *
 * That form cannot say "read-only": a consumer may try to write and be stopped by
 * the kernel. DLC_ACCESS_PRIVATE is the safe choice for such consumers.
 *
 * @param[in]  client      open connection
 * @param[in]  name        as it was published
 * @param[in]  options     NULL for the defaults
 * @param[out] ret_tensor  as for dlc_get()
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_get()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_get_legacy(struct dlc_client *client, const char *name,
                                        const struct dlc_get_options *options,
                                        struct DLManagedTensor **ret_tensor,
                                        struct dlc_error *reterr);

/** Room for one tensor in the caller's memory. What is inside is the library's. */
struct dlc_slot {
  uint64_t opaque[184];
};

/**
 * As dlc_get(), with the tensor laid into the caller's memory instead of the heap.
 *
 * @param[in]  client      open connection
 * @param[in]  name        as it was published
 * @param[in]  options     NULL for the defaults
 * @param[in]  slot        must not move or end before the deleter has run
 * @param[out] ret_tensor  points into `slot`; untouched unless 0 is returned
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_get()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_get_into(struct dlc_client *client, const char *name,
                                      const struct dlc_get_options *options, struct dlc_slot *slot,
                                      struct DLManagedTensorVersioned **ret_tensor,
                                      struct dlc_error *reterr);

/**
 * Get several tensors as of one instant.
 *
 * Tensors that were committed together are of one version here: no step is seen half.
 *
 * @param[in]  client       open connection
 * @param[in]  names        `n_names` names; or, with `n_names` 0, one string: the
 *                          prefix, ending in "/", of all names wanted ("/" alone:
 *                          all of this user's)
 * @param[in]  n_names      0 to 65,536
 * @param[in]  options      for all of them; NULL for the defaults. A wait ends when
 *                          every name listed is there; a prefix never waits
 * @param[out] ret_tensors  in the order of `names`, or of the names' bytes
 * @param[out] ret_count    how many
 * @param[out] reterr       filled on failure; may be NULL
 *
 * @par Ownership
 * The caller owns the array and gives it to dlc_tensors_free(). It may take an
 * element out and put NULL in its place.
 *
 * @return as dlc_get(); all of them or none
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_get_many(struct dlc_client *client, const char *const *names,
                                      size_t n_names, const struct dlc_get_options *options,
                                      struct DLManagedTensorVersioned ***ret_tensors,
                                      size_t *ret_count, struct dlc_error *reterr);

/**
 * Delete the tensors of an array from dlc_get_many(), and the array.
 *
 * @param[in] tensors  NULL is harmless; so is a NULL element
 * @param[in] count    as dlc_get_many() said
 * @since 0.1
 */
DLC_PUBLIC void dlc_tensors_free(struct DLManagedTensorVersioned **tensors, size_t count);

/**
 * What is known of a tensor of ours: name, version, attributes and so on.
 *
 * @param[in] tensor  from dlc_get(), dlc_get_many(), dlc_get_into(), dlc_dup(), dlc_alloc()
 * @return valid until the tensor's deleter runs; NULL if the tensor is not this
 *         library's, or is not published yet
 * @since 0.1
 */
DLC_PUBLIC const struct dlc_info *dlc_tensor_info(const struct DLManagedTensorVersioned *tensor);

/**
 * Tell whether a held tensor is the newest version of its name.
 *
 * A look at memory, without a system call: also while the daemon does not run. The
 * answer is of this moment; what is held stays as it is, newest or not.
 *
 * @param[in] tensor  from dlc_get(), dlc_get_many(), dlc_get_into() or dlc_dup()
 * @return 1, 0, or the negated code below
 * @retval 1               yes
 * @retval 0               no: a newer version was published, the name was deleted, or
 *                         the daemon was started anew and knows nothing of it
 * @retval -DLC_E_INVALID  nobody here can tell: the tensor is not this library's, is a
 *                         private copy (up to 256 KiB), or came from dlc_alloc()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_tensor_is_newest(const struct DLManagedTensorVersioned *tensor);

/**
 * One more reference to the same tensor. No call to the daemon.
 *
 * @param[in]  tensor      as for dlc_tensor_info(), published
 * @param[out] ret_tensor  with a deleter of its own; untouched unless 0 is returned
 * @param[out] reterr      filled on failure; may be NULL
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_INVALID    the tensor is not this library's
 * @retval -DLC_E_NO_MEMORY  out of memory
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_dup(const struct DLManagedTensorVersioned *tensor,
                                 struct DLManagedTensorVersioned **ret_tensor,
                                 struct dlc_error *reterr);

/**
 * As dlc_dup(), in DLPack's form without a version.
 *
 * @param[in]  tensor      as for dlc_dup()
 * @param[out] ret_tensor  with a deleter of its own; untouched unless 0 is returned
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_dup()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_dup_legacy(const struct DLManagedTensorVersioned *tensor,
                                        struct DLManagedTensor **ret_tensor,
                                        struct dlc_error *reterr);

DLC_END_DECLS

#endif
