#ifndef DLCLIENT_PUBLISH_H
#define DLCLIENT_PUBLISH_H

#include <stddef.h>
#include <stdint.h>

#include "client.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

DLC_BEGIN_DECLS

/** How long a published tensor stays. */
enum dlc_lifetime {
  DLC_LIFETIME_SESSION = 1,    /**< until this process is gone (default) */
  DLC_LIFETIME_PERSISTENT = 2, /**< until somebody deletes it */
  DLC_LIFETIME_TTL = 3,        /**< for ttl_ms milliseconds */
};

/** Where the memory comes from. */
enum dlc_backend {
  DLC_BACKEND_DEFAULT = 0,   /**< as the daemon is configured */
  DLC_BACKEND_MEMFD = 1,     /**< sealed: the kernel keeps readers from writing */
  DLC_BACKEND_POSIX_SHM = 2, /**< named in /dev/shm; cannot be sealed, own user only */
};

/** For publish flags. */
enum dlc_publish_flags {
  DLC_MUTABLE = 1u << 0,     /**< others may map it writable, if the mode grants them w */
  DLC_FROZEN = 1u << 1,      /**< seal it against this process too */
  DLC_KEEP_LAYOUT = 1u << 2, /**< keep strides; default: written compactly, row-major */
  DLC_IF_NEWEST = 1u << 3,   /**< refuse unless the newest version is `expected` */
};

/**
 * A tensor as the caller has it: DLPack's DLTensor, field by field.
 *
 * DLTensor has no tag, so no header can name it before it is defined; hence this
 * struct of the same layout. dlc_view() of dlclient_dlpack.h turns the one into the
 * other at no cost; without any dlpack.h, fill it directly.
 */
struct dlc_view {
  void *data;
  int32_t device_type; /**< DLPack's number; 1 is the CPU */
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code;     /**< DLPack's type code; 2 is float */
  uint8_t dtype_bits;     /**< of one lane */
  uint16_t dtype_lanes;   /**< 1 unless a vector */
  const int64_t *shape;   /**< ndim of them, in elements */
  const int64_t *strides; /**< in elements; NULL: compact and row-major */
  uint64_t byte_offset;   /**< from `data` to element zero */
};

/** A string pair that travels with a tensor; up to 4 KiB of them per tensor. */
struct dlc_attribute {
  const char *key;
  const char *value;
};

/** How to publish. Start from DLC_PUBLISH_OPTIONS_INIT; zero means default. */
struct dlc_publish_options {
  size_t struct_size;
  uint32_t lifetime; /**< enum dlc_lifetime */
  uint32_t backend;  /**< enum dlc_backend */
  uint32_t flags;    /**< enum dlc_publish_flags */
  uint32_t mode;     /**< permission bits r and w, as of a file; 0: 0600 */
  uint32_t gid;      /**< for the group bits, with has_gid; default: the process's group */
  uint32_t has_gid;  /**< 1 if `gid` is set */
  uint64_t ttl_ms;   /**< milliseconds, with DLC_LIFETIME_TTL */
  uint64_t expected; /**< with DLC_IF_NEWEST; 0: there must be none */
  size_t n_attributes;
  const struct dlc_attribute *attributes;
};

#define DLC_PUBLISH_OPTIONS_INIT                                        \
  {                                                                     \
    sizeof(struct dlc_publish_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL \
  }

/**
 * Publish a copy of a tensor under a name.
 *
 * One copy, into shared memory; a version that was there before is replaced, and
 * stays for those who hold it.
 *
 * @param[in]  client       open connection
 * @param[in]  name         up to 1,023 bytes; components of 1 to 255 bytes
 *                          between single slashes
 * @param[in]  tensor       on the CPU (kDLCPU, kDLCUDAHost, kDLROCMHost); borrowed
 *                          for the call. Strides of any sign, zero and NULL are fine;
 *                          `byte_offset` is honoured
 * @param[in]  options      NULL for the defaults
 * @param[out] ret_version  the version it got; may be NULL
 * @param[out] reterr       filled on failure; may be NULL
 *
 * @par Layout
 * The copy is compact and row-major, unless DLC_KEEP_LAYOUT asks for the strides
 * as they are (gaps between elements are copied too). It starts at a multiple of 256 bytes.
 *
 * @return 0, or one of the negated codes below; on failure nothing is left behind
 * @retval -DLC_E_NAME          the name breaks the grammar; the message says which rule
 * @retval -DLC_E_LAYOUT        ndim, shape, strides or offset are not valid
 * @retval -DLC_E_DTYPE         the data type is not known, or has no lanes
 * @retval -DLC_E_UNSUPPORTED   the device is not host memory, or the backend cannot do that
 * @retval -DLC_E_INVALID       an option is out of range
 * @retval -DLC_E_DENIED        the name belongs to somebody who does not let you write
 * @retval -DLC_E_CONFLICT      DLC_IF_NEWEST, and another version is there
 * @retval -DLC_E_NO_SPACE      over the daemon's limit or the host's memory; the message says which
 * @retval -DLC_E_QUOTA         over this user's quota
 * @retval -DLC_E_NO_MEMORY     out of memory
 * @retval -DLC_E_TIMEOUT       no answer in time
 * @retval -DLC_E_DISCONNECTED  the daemon went away; the tensor may or may not be there
 * @retval -DLC_E_NO_DAEMON     nothing listens at the socket
 * @retval -DLC_E_SYSTEM        a system call failed
 * @retval -DLC_E_FORKED        the client belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_put(struct dlc_client *client, const char *name,
                                 const struct dlc_view *tensor,
                                 const struct dlc_publish_options *options, uint64_t *ret_version,
                                 struct dlc_error *reterr);

/**
 * As dlc_put(), for a tensor in DLPack's versioned form.
 *
 * @param[in]  client       open connection
 * @param[in]  name         as for dlc_put()
 * @param[in]  managed      its deleter is called exactly once before this returns,
 *                          whatever is returned. Of another DLPack major version
 *                          nothing but the deleter is touched
 * @param[in]  options      NULL for the defaults
 * @param[out] ret_version  the version it got; may be NULL
 * @param[out] reterr       filled on failure; may be NULL
 * @return as dlc_put(), and
 * @retval -DLC_E_VERSION      the DLPack major version is not 1
 * @retval -DLC_E_UNSUPPORTED  an unknown flag is set
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_put_managed(struct dlc_client *client, const char *name,
                                         struct DLManagedTensorVersioned *managed,
                                         const struct dlc_publish_options *options,
                                         uint64_t *ret_version, struct dlc_error *reterr);

/**
 * As dlc_put_managed(), for DLPack's form without a version.
 *
 * @param[in]  client       open connection
 * @param[in]  name         as for dlc_put()
 * @param[in]  managed      its deleter is called exactly once before this returns
 * @param[in]  options      NULL for the defaults
 * @param[out] ret_version  the version it got; may be NULL
 * @param[out] reterr       filled on failure; may be NULL
 * @return as dlc_put()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_put_legacy(struct dlc_client *client, const char *name,
                                        struct DLManagedTensor *managed,
                                        const struct dlc_publish_options *options,
                                        uint64_t *ret_version, struct dlc_error *reterr);

/**
 * A writable tensor in shared memory, to fill in place and publish.
 *
 * What decides who may map the memory (lifetime, backend, mode, gid,
 * DLC_MUTABLE, DLC_FROZEN) is decided here, from `options`; the rest of the
 * options is for the publication.
 *
 * @param[in]  client      open connection
 * @param[in]  prototype   only dtype, ndim, shape and device type are read
 * @param[in]  options     NULL for the defaults
 * @param[out] ret_tensor  the tensor; untouched unless 0 is returned
 * @param[out] reterr      filled on failure; may be NULL
 *
 * @par Layout
 * Compact and row-major, with strides filled in; `data` starts on a page,
 * `byte_offset` is 0.
 *
 * @par Contents
 * Fresh memory is zero; memory that is used again holds what this process published
 * there before. Fill all of it.
 *
 * @par Ownership
 * The caller owns `*ret_tensor` and calls its `deleter` once. Before it was
 * published that gives the memory back.
 *
 * @return as dlc_put()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_alloc(struct dlc_client *client, const struct dlc_view *prototype,
                                   const struct dlc_publish_options *options,
                                   struct DLManagedTensorVersioned **ret_tensor,
                                   struct dlc_error *reterr);

/**
 * Publish a tensor from dlc_alloc() under a name, without a copy.
 *
 * Its pages become read-only in this process: what was published does not
 * change any more, and a later write through any pointer into it is stopped by
 * the kernel (SIGSEGV). A DLC_MUTABLE one stays writable.
 *
 * @param[in]  client       the client that allocated it
 * @param[in]  name         as for dlc_put()
 * @param[in]  tensor       from dlc_alloc(); stays the caller's
 * @param[in]  options      attributes, ttl_ms, DLC_IF_NEWEST and expected are read;
 *                          NULL for none
 * @param[out] ret_version  the version it got; may be NULL
 * @param[out] reterr       filled on failure; may be NULL
 * @return as dlc_put(), and
 * @retval -DLC_E_PUBLISHED  it is published already: fill a new one from dlc_alloc()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_publish(struct dlc_client *client, const char *name,
                                     struct DLManagedTensorVersioned *tensor,
                                     const struct dlc_publish_options *options,
                                     uint64_t *ret_version, struct dlc_error *reterr);

/**
 * A publication of several tensors at once. Opaque.
 *
 * All names appear together, or none does, whoever is killed.
 */
struct dlc_generation;

/**
 * Begin a publication of several tensors.
 *
 * @param[in]  client          open connection
 * @param[in]  options         for all of it: lifetime, backend, mode, gid, ttl_ms;
 *                             NULL for the defaults
 * @param[out] ret_generation  untouched unless 0 is returned
 * @param[out] reterr          filled on failure; may be NULL
 *
 * @par Ownership
 * The caller owns `*ret_generation` and gives it to dlc_generation_free() once.
 *
 * @par Threads
 * One thread at a time may use a generation.
 *
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_INVALID    an option is out of range
 * @retval -DLC_E_NO_MEMORY  out of memory
 * @retval -DLC_E_FORKED     the client belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_begin(struct dlc_client *client,
                                   const struct dlc_publish_options *options,
                                   struct dlc_generation **ret_generation,
                                   struct dlc_error *reterr);

/**
 * Add a copy of a tensor.
 *
 * @param[in]  generation  from dlc_begin(), not committed yet
 * @param[in]  name        as for dlc_put(); once per generation
 * @param[in]  tensor      as for dlc_put()
 * @param[in]  options     attributes, DLC_KEEP_LAYOUT, DLC_IF_NEWEST and expected
 *                         are read; NULL for none
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_put(), and
 * @retval -DLC_E_EXISTS  the generation has this name already
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_add_copy(struct dlc_generation *generation, const char *name,
                                      const struct dlc_view *tensor,
                                      const struct dlc_publish_options *options,
                                      struct dlc_error *reterr);

/**
 * Add a tensor from dlc_alloc(), without a copy.
 *
 * It can still be filled until dlc_commit(), which makes it read-only.
 *
 * @param[in]  generation  from dlc_begin(), not committed yet
 * @param[in]  name        as for dlc_put(); once per generation
 * @param[in]  tensor      from dlc_alloc() with the same client; stays the caller's
 * @param[in]  options     as for dlc_add_copy()
 * @param[out] reterr      filled on failure; may be NULL
 * @return as dlc_publish()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_add(struct dlc_generation *generation, const char *name,
                                 struct DLManagedTensorVersioned *tensor,
                                 const struct dlc_publish_options *options,
                                 struct dlc_error *reterr);

/**
 * Make everything that was added visible, at once.
 *
 * @param[in]  generation   from dlc_begin(); only dlc_generation_free() may follow
 * @param[out] ret_version  the version that all of them got; may be NULL
 * @param[out] reterr       filled on failure; may be NULL
 * @return as dlc_put()
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_commit(struct dlc_generation *generation, uint64_t *ret_version,
                                    struct dlc_error *reterr);

/**
 * Free a generation; what was not committed is given up.
 *
 * @param[in] generation  NULL is harmless
 * @since 0.1
 */
DLC_PUBLIC void dlc_generation_free(struct dlc_generation *generation);

/**
 * Delete a name, or all names below a prefix.
 *
 * The name is free at once; the memory is, when the last holder lets go.
 *
 * @param[in]  client     open connection
 * @param[in]  name       a name, or a prefix that ends in "/"; "/" alone is all
 *                        of this user's names
 * @param[in]  version    delete only this version; 0: whichever is there
 * @param[out] ret_count  how many names were deleted; may be NULL
 * @param[out] reterr     filled on failure; may be NULL
 * @return 0, or one of the negated codes below
 * @retval -DLC_E_NOT_FOUND     nothing of that name, or it is not yours to see
 * @retval -DLC_E_DENIED        you may read but not delete it
 * @retval -DLC_E_CONFLICT      another version is there
 * @retval -DLC_E_NAME          the name breaks the grammar
 * @retval -DLC_E_TIMEOUT       no answer in time
 * @retval -DLC_E_DISCONNECTED  the daemon went away
 * @retval -DLC_E_NO_DAEMON     nothing listens at the socket
 * @retval -DLC_E_FORKED        the client belongs to the parent process
 * @since 0.1
 */
DLC_PUBLIC DLC_CHECK int dlc_delete(struct dlc_client *client, const char *name, uint64_t version,
                                    uint64_t *ret_count, struct dlc_error *reterr);

DLC_END_DECLS

#endif
