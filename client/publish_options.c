#include "client/publish_options.h"

#include <string.h>

#include "client/error.h"
#include "client/options.h"
#include "common/utf8.h"

#define KNOWN_FLAGS (DLC_MUTABLE | DLC_FROZEN | DLC_KEEP_LAYOUT | DLC_IF_NEWEST)
#define MODE_MASK 0666u

static int options_refuse(struct dlc_error *reterr, const char *what)
{
  return dlc__error_set(reterr, DLC_E_INVALID, 0, "%s", what);
}

static int options_check_attribute(const struct dlc_attribute *attribute, size_t *size,
                                   struct dlc_error *reterr)
{
  size_t key_size, value_size;

  if (!attribute->key || !attribute->value)
    return options_refuse(reterr, "an attribute's key or value is NULL");
  key_size = strlen(attribute->key);
  value_size = strlen(attribute->value);
  if (key_size == 0 || key_size > DLP_ATTRIBUTE_KEY_MAX)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "an attribute's key has %zu bytes; it must have 1 to %d", key_size,
                          DLP_ATTRIBUTE_KEY_MAX);
  if (!dlp_utf8_valid(attribute->key, key_size) || !dlp_utf8_valid(attribute->value, value_size))
    return options_refuse(reterr, "an attribute is not UTF-8");
  *size += key_size + value_size + 2;
  if (*size > DLP_ATTRIBUTES_MAX)
    return dlc__error_set(reterr, DLC_E_INVALID, 0,
                          "the attributes take more than %d bytes; publish larger data as a "
                          "tensor of its own",
                          DLP_ATTRIBUTES_MAX);
  return 0;
}

static int options_check_attributes(const struct dlc_publish_options *options,
                                    struct dlc_error *reterr)
{
  size_t size = 0;

  if (options->n_attributes > 0 && !options->attributes)
    return options_refuse(reterr, "attributes is NULL, but n_attributes is not 0");
  for (size_t i = 0; i < options->n_attributes; i++) {
    int r = options_check_attribute(&options->attributes[i], &size, reterr);

    if (r < 0)
      return r;
    for (size_t j = 0; j < i; j++) {
      if (strcmp(options->attributes[i].key, options->attributes[j].key) == 0)
        return options_refuse(reterr, "two attributes have the same key");
    }
  }
  return 0;
}

static int options_check_ranges(const struct dlc_publish_options *options, struct dlc_error *reterr)
{
  if (options->flags & ~(uint32_t)KNOWN_FLAGS)
    return options_refuse(reterr, "unknown publish flags are set");
  if ((options->flags & DLC_MUTABLE) && (options->flags & DLC_FROZEN))
    return options_refuse(reterr, "DLC_MUTABLE and DLC_FROZEN exclude each other");
  if (options->lifetime > DLC_LIFETIME_TTL)
    return options_refuse(reterr, "lifetime is none of enum dlc_lifetime");
  if (options->backend > DLC_BACKEND_POSIX_SHM)
    return options_refuse(reterr, "backend is none of enum dlc_backend");
  if (options->mode & ~MODE_MASK)
    return options_refuse(reterr, "mode has other bits than r and w, as in 0640");
  if (options->has_gid > 1)
    return options_refuse(reterr, "has_gid is neither 0 nor 1");
  return 0;
}

int dlc__publish_options_read(const struct dlc_publish_options *options,
                              struct dlc_publish_options *ret, struct dlc_error *reterr)
{
  int r = dlc__options_read(ret, sizeof(*ret), options, reterr);

  if (r < 0)
    return r;
  r = options_check_ranges(ret, reterr);
  if (r < 0)
    return r;
  return options_check_attributes(ret, reterr);
}

struct dlc__domain dlc__publish_domain(const struct dlc_publish_options *options, uint32_t owner)
{
  return (struct dlc__domain){
      .owner = owner,
      .lifetime = options->lifetime ? options->lifetime : MSG_LIFETIME_SESSION,
      .mode = options->mode,
      .gid = options->has_gid ? options->gid : MSG_OWNER_SELF,
      .backend = options->backend,
      .is_mutable = (options->flags & DLC_MUTABLE) != 0,
      .is_frozen = (options->flags & DLC_FROZEN) != 0,
  };
}
