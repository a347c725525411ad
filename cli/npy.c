#include "npy.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char magic[6] = "\x93NUMPY";

enum {
  PREFIX_SIZE = 8,    /* magic and version */
  ALIGNMENT = 64,     /* of the first element, in what NumPy writes */
  GROWTH_DIGITS = 21, /* room NumPy leaves for the first dimension to grow */
  DESCR_MAX = 64,
};

/* A Python literal being read; `at` never passes `end`. */
struct reader {
  const char *at;
  const char *end;
};

struct header {
  char descr[DESCR_MAX];
  bool structured; /* descr is a list of fields */
  bool has_descr, has_order, has_shape;
};

static void skip_spaces(struct reader *reader)
{
  while (reader->at < reader->end && isspace((unsigned char)*reader->at))
    reader->at++;
}

static bool take(struct reader *reader, const char *token)
{
  size_t size = strlen(token);

  skip_spaces(reader);
  if ((size_t)(reader->end - reader->at) < size || memcmp(reader->at, token, size) != 0)
    return false;
  reader->at += size;
  return true;
}

static bool take_string(struct reader *reader, char *buffer, size_t size)
{
  const char *close;
  size_t length;

  skip_spaces(reader);
  if (reader->at == reader->end || (*reader->at != '\'' && *reader->at != '"'))
    return false;
  close = memchr(reader->at + 1, *reader->at, (size_t)(reader->end - reader->at) - 1);
  if (!close)
    return false;
  length = (size_t)(close - reader->at) - 1;
  if (length >= size || memchr(reader->at + 1, '\0', length))
    return false;
  memcpy(buffer, reader->at + 1, length);
  buffer[length] = '\0';
  reader->at = close + 1;
  return true;
}

/* Python 2 wrote long integers as 3L. */
static bool take_dimension(struct reader *reader, int64_t *ret)
{
  int64_t value = 0;
  const char *start;

  skip_spaces(reader);
  start = reader->at;
  for (; reader->at < reader->end && isdigit((unsigned char)*reader->at); reader->at++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *reader->at - '0', &value))
      return false;
  if (reader->at == start)
    return false;
  (void)take(reader, "L");
  *ret = value;
  return true;
}

static bool take_shape(struct reader *reader, struct npy *npy)
{
  if (!take(reader, "("))
    return false;
  while (!take(reader, ")")) {
    if (npy->ndim == LAYOUT_NDIM_MAX || !take_dimension(reader, &npy->shape[npy->ndim]))
      return false;
    npy->ndim++;
    if (!take(reader, ",")) {
      return take(reader, ")");
    }
  }
  return true;
}

static bool take_descr(struct reader *reader, struct header *header)
{
  skip_spaces(reader);
  header->has_descr = true;
  header->structured = reader->at < reader->end && (*reader->at == '[' || *reader->at == '(');
  if (header->structured) {
    /* Refused whatever the rest says. */
    reader->at = reader->end;
    return true;
  }
  return take_string(reader, header->descr, sizeof(header->descr));
}

static bool take_order(struct reader *reader, struct header *header, struct npy *npy)
{
  header->has_order = true;
  npy->fortran_order = take(reader, "True");
  return npy->fortran_order || take(reader, "False");
}

static bool take_entry(struct reader *reader, struct header *header, struct npy *npy)
{
  char key[16];

  if (!take_string(reader, key, sizeof(key)) || !take(reader, ":"))
    return false;
  if (strcmp(key, "descr") == 0 && !header->has_descr)
    return take_descr(reader, header);
  if (strcmp(key, "fortran_order") == 0 && !header->has_order)
    return take_order(reader, header, npy);
  if (strcmp(key, "shape") == 0 && !header->has_shape) {
    header->has_shape = true;
    return take_shape(reader, npy);
  }
  return false;
}

static bool take_dict(struct reader *reader, struct header *header, struct npy *npy)
{
  if (!take(reader, "{"))
    return false;
  while (!take(reader, "}")) {
    if (!take_entry(reader, header, npy))
      return false;
    if (header->structured)
      return true;
    if (!take(reader, ","))
      return take(reader, "}");
  }
  return true;
}

__attribute__((format(printf, 2, 3))) static int refuse(struct text *reason, const char *format,
                                                        ...);

static int refuse(struct text *reason, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  text_vprintf(reason, format, arguments);
  va_end(arguments);
  return NPY_E_FORMAT;
}

/* Where the header's text lies. */
static int find_header(const uint8_t *file, size_t size, struct reader *ret, struct text *reason)
{
  unsigned major = size >= PREFIX_SIZE ? file[6] : 0;
  unsigned length_size = major == 1 ? 2 : 4;
  size_t length = 0;

  if (size < PREFIX_SIZE || memcmp(file, magic, sizeof(magic)) != 0)
    return refuse(reason, "not a .npy file: it does not begin with the magic string");
  if (major < 1 || major > 3)
    return refuse(reason, ".npy format version %u is not known; 1 to 3 are", major);
  if (size < PREFIX_SIZE + length_size)
    return refuse(reason, "the file ends within the header");
  for (unsigned i = length_size; i > 0; i--)
    length = length << 8 | file[PREFIX_SIZE + i - 1];
  if (length > size - PREFIX_SIZE - length_size)
    return refuse(reason, "the header claims %zu bytes, the file has %zu", length,
                  size - PREFIX_SIZE - length_size);
  ret->at = (const char *)file + PREFIX_SIZE + length_size;
  ret->end = ret->at + length;
  return 0;
}

/* Types that NumPy writes and a tensor cannot be: say what they are. */
static const struct {
  char kind;
  const char *text;
} refused_kinds[] = {
    {'O', "Python objects"},
    {'S', "byte strings"},
    {'U', "Unicode strings"},
    {'V', "untyped (void) records, as which NumPy also writes bfloat16 (put a .safetensors file),"},
    {'M', "dates (datetime64)"},
    {'m', "time spans (timedelta64)"},
    {'f', "floats of this width"},
    {'c', "complex numbers of this width"},
};

static int check_dtype(const struct header *header, struct npy *npy, struct text *reason)
{
  const char *descr = header->descr;
  char kind = descr[0] ? descr[1] : '\0';

  if (header->structured)
    return refuse(reason, "structured dtypes (records with fields) are not tensors; save each "
                          "field as an array of its own");
  if (dtype_from_npy(descr, &npy->dtype))
    return 0;
  if (descr[0] == '>' && !strchr("OSUVMm", kind))
    return refuse(reason,
                  "dtype '%s' is big-endian; convert it first with "
                  "a.astype(a.dtype.newbyteorder('<'))",
                  descr);
  for (size_t i = 0; i < sizeof(refused_kinds) / sizeof(refused_kinds[0]); i++)
    if (kind == refused_kinds[i].kind || (descr[0] == refused_kinds[i].kind && !kind))
      return refuse(reason, "dtype '%s': %s are not a tensor's data type", descr,
                    refused_kinds[i].text);
  return refuse(reason, "dtype '%s' is not known", descr);
}

static int check_size(struct npy *npy, uint64_t available, struct text *reason)
{
  uint64_t n_elements;

  if (layout_check_shape(npy->ndim, npy->shape, &n_elements) != 0 ||
      __builtin_mul_overflow(n_elements, (uint64_t)npy->dtype.bits / 8, &npy->data_size))
    return refuse(reason, "the shape overflows");
  if (npy->data_size > available)
    return refuse(reason, "the shape needs %" PRIu64 " bytes of data, the file has %" PRIu64,
                  npy->data_size, available);
  if (npy->data_size < available)
    return refuse(reason,
                  "%" PRIu64 " bytes follow the array; a file must hold one array and no more",
                  available - npy->data_size);
  return 0;
}

int npy_parse(const void *file, size_t size, struct npy *ret, struct text *reason)
{
  struct reader reader = {0};
  struct header header = {0};
  struct npy npy = {0};
  const char *end;
  int r;

  r = find_header(file, size, &reader, reason);
  if (r != 0)
    return r;
  end = reader.end;
  if (!take_dict(&reader, &header, &npy) || !header.has_descr)
    return refuse(reason, "the header is not a dictionary of descr, fortran_order and shape");
  r = check_dtype(&header, &npy, reason);
  if (r != 0)
    return r;
  skip_spaces(&reader);
  if (!header.has_order || !header.has_shape || reader.at != reader.end)
    return refuse(reason, "the header is not a dictionary of descr, fortran_order and shape");
  npy.data_offset = (uint64_t)(end - (const char *)file);
  r = check_size(&npy, size - npy.data_offset, reason);
  if (r != 0)
    return r;
  *ret = npy;
  return 0;
}

/* NumPy pads so that the dimension an array grows along can get more digits in place. */
static size_t growth_room(bool fortran_order, int32_t ndim, const int64_t *shape)
{
  int64_t growing = ndim == 0 ? 0 : fortran_order ? shape[ndim - 1] : shape[0];
  int digits = snprintf(NULL, 0, "%" PRId64, growing);

  return ndim == 0 ? 0 : (size_t)(GROWTH_DIGITS - digits);
}

void npy_format(struct text *text, struct dtype dtype, bool fortran_order, int32_t ndim,
                const int64_t *shape)
{
  const char *descr = dtype_to_npy(dtype);
  cli_auto_text struct text body = {0};
  size_t length;
  uint8_t prefix[PREFIX_SIZE + 2] = {0};

  assert(descr);
  text_printf(&body, "{'descr': '%s', 'fortran_order': %s, 'shape': (", descr,
              fortran_order ? "True" : "False");
  for (int32_t i = 0; i < ndim; i++)
    text_printf(&body, "%s%" PRId64, i ? ", " : "", shape[i]);
  text_append(&body, ndim == 1 ? ",), }" : "), }");
  text_append_spaces(&body, growth_room(fortran_order, ndim, shape));
  length = sizeof(prefix) + body.size + 1;
  text_append_spaces(&body, ALIGNMENT - length % ALIGNMENT);
  text_append(&body, "\n");

  /* 64 dimensions of 20 digits stay far below the 65,535 bytes of version 1. */
  memcpy(prefix, magic, sizeof(magic));
  prefix[6] = 1;
  prefix[8] = (uint8_t)(body.size & 0xff);
  prefix[9] = (uint8_t)(body.size >> 8);
  text_append_bytes(text, prefix, sizeof(prefix));
  text_append_bytes(text, text_string(&body), body.size);
  text->failed |= body.failed;
}
