#include "client/managed.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "client/error.h"
#include "client/fork.h"

/* Shape and strides are the hold's, which all tensors of it share. */
struct managed {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } u;
  struct dlc__hold *hold;
  bool in_slot;
};

_Static_assert(offsetof(struct managed, u) == 0, "a tensor is where its struct managed is");
_Static_assert(sizeof(struct managed) <= sizeof(struct dlc_slot), "a slot holds a tensor");

/* A second call by mistake, on a slot, finds nothing to do. */
static void managed_end(struct managed *managed)
{
  struct dlc__hold *hold = DLP_TAKE(managed->hold);

  if (!hold)
    return;
  if (hold->sole == &managed->u.versioned)
    hold->sole = NULL;
  if (!managed->in_slot)
    free(managed);
  dlc__hold_unref(hold);
}

static void managed_delete_versioned(DLManagedTensorVersioned *self)
{
  if (self)
    managed_end((struct managed *)self);
}

static void managed_delete_legacy(DLManagedTensor *self)
{
  if (self)
    managed_end((struct managed *)self);
}

static void managed_fill_tensor(struct managed *managed, DLTensor *tensor)
{
  struct dlc__hold *hold = managed->hold;
  size_t ndim = hold->spec.ndim;

  *tensor = (DLTensor){
      .data = hold->data,
      .device = {kDLCPU, 0},
      .ndim = (int32_t)ndim,
      .dtype = {(uint8_t)hold->spec.code, (uint8_t)hold->spec.bits, (uint16_t)hold->spec.lanes},
      .shape = hold->dims,
      .strides = hold->dims + (ndim > 0 ? ndim : 1),
      .byte_offset = 0,
  };
}

static DLManagedTensorVersioned *managed_fill_versioned(struct managed *managed)
{
  DLManagedTensorVersioned *versioned = &managed->u.versioned;

  versioned->version = (DLPackVersion){1, 3};
  versioned->manager_ctx = managed;
  versioned->deleter = managed_delete_versioned;
  versioned->flags = managed->hold->flags;
  managed_fill_tensor(managed, &versioned->dl_tensor);
  return versioned;
}

static struct managed *managed_new(struct dlc__hold *hold)
{
  struct managed *managed = (struct managed *)malloc(sizeof(*managed));

  if (!managed)
    return NULL;
  managed->hold = hold;
  managed->in_slot = false;
  return managed;
}

int dlc__managed_new_consume(struct dlc__hold *hold, DLManagedTensorVersioned **ret)
{
  struct managed *managed = managed_new(hold);

  if (!managed)
    return -ENOMEM;
  *ret = managed_fill_versioned(managed);
  return 0;
}

int dlc__managed_new_legacy_consume(struct dlc__hold *hold, DLManagedTensor **ret)
{
  struct managed *managed = managed_new(hold);

  if (!managed)
    return -ENOMEM;
  managed->u.legacy.manager_ctx = managed;
  managed->u.legacy.deleter = managed_delete_legacy;
  managed_fill_tensor(managed, &managed->u.legacy.dl_tensor);
  *ret = &managed->u.legacy;
  return 0;
}

DLManagedTensorVersioned *dlc__managed_init_consume(struct dlc_slot *slot, struct dlc__hold *hold)
{
  struct managed *managed = (struct managed *)(void *)slot;

  managed->hold = hold;
  managed->in_slot = true;
  return managed_fill_versioned(managed);
}

struct dlc__hold *dlc__managed_hold(const DLManagedTensorVersioned *tensor)
{
  if (!tensor || tensor->deleter != managed_delete_versioned)
    return NULL;
  return ((const struct managed *)tensor)->hold;
}

/* The client of the tensors, with a reference, so that their leases go back in few packets. */
static struct dlc_client *managed_cork(struct DLManagedTensorVersioned **tensors, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    struct dlc__hold *hold = dlc__managed_hold(tensors[i]);

    if (!hold)
      continue;
    if (dlc__fork_is_child(hold->fork_generation))
      return NULL;
    dlc__transport_cork(hold->client->transport);
    return dlc__client_ref(hold->client);
  }
  return NULL;
}

void dlc_tensors_free(struct DLManagedTensorVersioned **tensors, size_t count)
{
  struct dlc_client *client;

  if (!tensors)
    return;
  client = managed_cork(tensors, count);
  for (size_t i = 0; i < count; i++) {
    if (tensors[i] && tensors[i]->deleter)
      tensors[i]->deleter(tensors[i]);
  }
  free(tensors);
  if (!client)
    return;
  dlc__transport_uncork(client->transport);
  dlc__client_unref(client);
}

const struct dlc_info *dlc_tensor_info(const struct DLManagedTensorVersioned *tensor)
{
  const struct dlc__hold *hold = dlc__managed_hold(tensor);

  return hold ? hold->info : NULL;
}

int dlc_tensor_is_newest(const struct DLManagedTensorVersioned *tensor)
{
  const struct dlc__hold *hold = dlc__managed_hold(tensor);

  if (!hold || !hold->lease.pages)
    return -DLC_E_INVALID;
  return dlc__lease_is_current(&hold->lease);
}

static struct dlc__hold *managed_hold_to_share(const DLManagedTensorVersioned *tensor,
                                               struct dlc_error *reterr)
{
  struct dlc__hold *hold = dlc__managed_hold(tensor);

  if (hold && hold->info)
    return hold;
  (void)dlc__error_set(reterr, DLC_E_INVALID, 0, "%s",
                       hold ? "the tensor is not published yet: it has one owner"
                            : "the tensor is not one of this library's");
  return NULL;
}

int dlc_dup(const struct DLManagedTensorVersioned *tensor,
            struct DLManagedTensorVersioned **ret_tensor, struct dlc_error *reterr)
{
  struct dlc__hold *hold = managed_hold_to_share(tensor, reterr);

  if (!hold)
    return -DLC_E_INVALID;
  if (!ret_tensor)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_tensor is NULL");
  if (dlc__managed_new_consume(hold, ret_tensor) < 0)
    return dlc__error_no_memory(reterr);
  (void)dlc__hold_ref(hold);
  return 0;
}

int dlc_dup_legacy(const struct DLManagedTensorVersioned *tensor,
                   struct DLManagedTensor **ret_tensor, struct dlc_error *reterr)
{
  struct dlc__hold *hold = managed_hold_to_share(tensor, reterr);

  if (!hold)
    return -DLC_E_INVALID;
  if (!ret_tensor)
    return dlc__error_set(reterr, DLC_E_INVALID, 0, "ret_tensor is NULL");
  if (dlc__managed_new_legacy_consume(hold, ret_tensor) < 0)
    return dlc__error_no_memory(reterr);
  (void)dlc__hold_ref(hold);
  return 0;
}
