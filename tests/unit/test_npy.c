#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "dlclient_dlpack.h"
#include "npy.h"

struct fixture {
  struct text file;
  struct text reason;
  struct npy npy;
};

static int setup(void **state)
{
  static struct fixture fixture;

  memset(&fixture, 0, sizeof(fixture));
  *state = &fixture;
  return 0;
}

static int teardown(void **state)
{
  struct fixture *fixture = *state;

  text_deinit(&fixture->file);
  text_deinit(&fixture->reason);
  return 0;
}

/* A file of this header, of version `major`, with `data_size` bytes of data. */
static int parse(struct fixture *fixture, unsigned major, const char *header, size_t data_size)
{
  size_t length = strlen(header);
  uint8_t prefix[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)major, 0};

  for (unsigned i = 0; i < 4; i++)
    prefix[8 + i] = (uint8_t)(length >> (8 * i));
  text_clear(&fixture->file);
  text_clear(&fixture->reason);
  text_append_bytes(&fixture->file, prefix, major == 1 ? 10 : 12);
  text_append(&fixture->file, header);
  text_append_spaces(&fixture->file, data_size);
  return npy_parse(fixture->file.data, fixture->file.size, &fixture->npy, &fixture->reason);
}

static void assert_refused(struct fixture *fixture, const char *header, size_t data_size,
                           const char *part)
{
  assert_int_equal(parse(fixture, 1, header, data_size), NPY_E_FORMAT);
  if (!strstr(text_string(&fixture->reason), part))
    fail_msg("'%s' does not say '%s'", text_string(&fixture->reason), part);
}

#define HEADER(descr, order, shape) \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }  \n"

static void all_versions_of_the_format_are_read(void **state)
{
  struct fixture *fixture = *state;

  for (unsigned major = 1; major <= 3; major++) {
    assert_int_equal(parse(fixture, major, HEADER("<f4", "False", "(2, 3)"), 24), 0);
    assert_int_equal(fixture->npy.ndim, 2);
    assert_int_equal(fixture->npy.shape[1], 3);
    assert_int_equal(fixture->npy.data_size, 24);
    assert_int_equal(fixture->npy.data_offset, fixture->file.size - 24);
    assert_false(fixture->npy.fortran_order);
  }
}

static void every_dtype_of_numpy_that_is_a_tensors_is_read(void **state)
{
  static const struct {
    const char *descr;
    uint8_t code;
    uint8_t bits;
  } dtypes[] = {
      {"|b1", kDLBool, 8},     {"|i1", kDLInt, 8},        {"<i2", kDLInt, 16},
      {"<i4", kDLInt, 32},     {"<i8", kDLInt, 64},       {"|u1", kDLUInt, 8},
      {"<u2", kDLUInt, 16},    {"<u4", kDLUInt, 32},      {"<u8", kDLUInt, 64},
      {"<f2", kDLFloat, 16},   {"<f4", kDLFloat, 32},     {"<f8", kDLFloat, 64},
      {"<c8", kDLComplex, 64}, {"<c16", kDLComplex, 128}, {"=f4", kDLFloat, 32},
      {"<b1", kDLBool, 8},
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(dtypes); i++) {
    struct dtype dtype;

    assert_true(dtype_from_npy(dtypes[i].descr, &dtype));
    assert_int_equal(dtype.code, dtypes[i].code);
    assert_int_equal(dtype.bits, dtypes[i].bits);
  }
}

static void scalars_and_empty_arrays_are_read(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, 1, HEADER("<f8", "False", "()"), 8), 0);
  assert_int_equal(fixture->npy.ndim, 0);
  assert_int_equal(parse(fixture, 1, HEADER("<f8", "False", "(3, 0)"), 0), 0);
  assert_int_equal(fixture->npy.data_size, 0);
}

static void other_ways_to_write_the_header_are_read(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(
      parse(fixture, 1, "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"<i2\"}", 12), 0);
  assert_true(fixture->npy.fortran_order);
  assert_int_equal(fixture->npy.ndim, 2);
}

static void foreign_byte_order_is_refused_with_the_remedy(void **state)
{
  assert_refused(*state, HEADER(">f4", "False", "(2,)"), 8, "newbyteorder");
}

static void what_is_no_tensors_type_is_refused_by_name(void **state)
{
  assert_refused(*state, HEADER("|O", "False", "(1,)"), 8, "Python objects");
  assert_refused(*state, HEADER("<U3", "False", "(1,)"), 12, "Unicode");
  assert_refused(*state, HEADER("|S3", "False", "(1,)"), 3, "byte strings");
  assert_refused(*state, HEADER("<M8[ns]", "False", "(1,)"), 8, "datetime64");
  assert_refused(*state, HEADER("|V2", "False", "(1,)"), 2, "bfloat16");
  assert_refused(*state, HEADER("<f16", "False", "(1,)"), 16, "<f16");
  assert_refused(*state, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4,
                 "structured");
}

static void a_shape_that_does_not_fit_the_file_is_refused(void **state)
{
  assert_refused(*state, HEADER("<f4", "False", "(2,)"), 7, "needs 8 bytes");
  assert_refused(*state, HEADER("<f4", "False", "(2,)"), 9, "1 bytes follow");
  assert_refused(*state, HEADER("<f4", "False", "(4611686018427387904, 4)"), 8, "overflows");
  assert_refused(*state, HEADER("<f4", "False", "(99999999999999999999,)"), 8, "dictionary");
}

static void a_header_that_is_no_header_is_refused(void **state)
{
  static const char *const headers[] = {
      "",
      "{",
      "}",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': '<f4",
      "{'descr",
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(headers); i++)
    assert_refused(*state, headers[i], 4, "dictionary");
}

static void a_file_cut_anywhere_in_its_header_is_refused(void **state)
{
  struct fixture *fixture = *state;
  size_t size;

  assert_int_equal(parse(fixture, 1, HEADER("<f4", "False", "(2,)"), 8), 0);
  size = fixture->file.size;
  for (size_t cut = 0; cut < size; cut++) {
    /* On the heap, at its exact size: a look beyond the end would be noticed. */
    char *copy = malloc(cut + 1);
    int r;

    assert_non_null(copy);
    memcpy(copy, fixture->file.data, cut);
    r = npy_parse(copy, cut, &fixture->npy, &fixture->reason);
    free(copy);
    assert_int_equal(r, NPY_E_FORMAT);
  }
}

static void more_than_64_dimensions_are_refused(void **state)
{
  cli_auto_text struct text header = {0};

  text_append(&header, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < 65; i++)
    text_append(&header, "1, ");
  text_append(&header, ")}");
  assert_refused(*state, text_string(&header), 4, "dictionary");
}

static void a_written_header_is_read_back(void **state)
{
  static const int64_t shape[] = {3, 1, 4};
  struct fixture *fixture = *state;

  for (int32_t ndim = 0; ndim <= 3; ndim++) {
    text_clear(&fixture->file);
    npy_format(&fixture->file, (struct dtype){kDLComplex, 128, 1}, ndim > 1, ndim, shape);
    assert_int_equal(fixture->file.size % 64, 0);
    text_append_spaces(&fixture->file, (size_t)(ndim == 0 ? 1 : ndim < 3 ? 3 : 12) * 16);
    assert_int_equal(
        npy_parse(fixture->file.data, fixture->file.size, &fixture->npy, &fixture->reason), 0);
    assert_int_equal(fixture->npy.ndim, ndim);
    assert_int_equal(fixture->npy.fortran_order, ndim > 1);
    assert_int_equal(fixture->npy.dtype.bits, 128);
    assert_memory_equal(fixture->npy.shape, shape, (size_t)ndim * sizeof(shape[0]));
  }
}

/* Saves each array as NumPy does, after eight bytes of its length. */
static const char numpy_command[] =
    "/usr/bin/python3 -c '\n"
    "import io, struct, sys\n"
    "import numpy as np\n"
    "for array in [\n"
    "    np.zeros((), \"f8\"), np.zeros((0,), \"f4\"), np.arange(5, dtype=\"i8\"),\n"
    "    np.arange(123456, dtype=\"u1\"), np.ones((2, 3), \"?\"),\n"
    "    np.asfortranarray(np.arange(12).reshape(3, 4).astype(\"c8\")),\n"
    "    np.asfortranarray(np.zeros((3, 4, 1000), \"f2\")),\n"
    "    np.zeros((3, 0, 2), \"c16\", order=\"F\"), np.zeros((1,) * 20 + (7,), \"u2\")]:\n"
    "  file = io.BytesIO()\n"
    "  np.save(file, array)\n"
    "  sys.stdout.buffer.write(struct.pack(\"<Q\", len(file.getvalue())) + file.getvalue())\n"
    "' 2>/dev/null";

enum {
  N_NUMPY_ARRAYS = 9,
};

/* Return: false if there is no NumPy here. */
static bool run_numpy(struct text *output)
{
  char buffer[4096];
  FILE *pipe = popen(numpy_command, "r");
  size_t n;

  assert_non_null(pipe);
  while ((n = fread(buffer, 1, sizeof(buffer), pipe)) > 0)
    text_append_bytes(output, buffer, n);
  return pclose(pipe) == 0;
}

static void numpy_writes_the_same_header(void **state)
{
  struct fixture *fixture = *state;
  struct npy *npy = &fixture->npy;
  size_t n_arrays = 0;

  if (!run_numpy(&fixture->file))
    skip();
  for (size_t at = 0; at < fixture->file.size; n_arrays++) {
    cli_auto_text struct text again = {0};
    const char *file = fixture->file.data + at + 8;
    uint64_t size;

    memcpy(&size, fixture->file.data + at, sizeof(size));
    assert_int_equal(npy_parse(file, size, npy, &fixture->reason), 0);
    npy_format(&again, npy->dtype, npy->fortran_order, npy->ndim, npy->shape);
    assert_int_equal(again.size, npy->data_offset);
    assert_memory_equal(again.data, file, again.size);
    at += 8 + size;
  }
  assert_int_equal(n_arrays, N_NUMPY_ARRAYS);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(all_versions_of_the_format_are_read),
    TEST(every_dtype_of_numpy_that_is_a_tensors_is_read),
    TEST(scalars_and_empty_arrays_are_read),
    TEST(other_ways_to_write_the_header_are_read),
    TEST(foreign_byte_order_is_refused_with_the_remedy),
    TEST(what_is_no_tensors_type_is_refused_by_name),
    TEST(a_shape_that_does_not_fit_the_file_is_refused),
    TEST(a_header_that_is_no_header_is_refused),
    TEST(a_file_cut_anywhere_in_its_header_is_refused),
    TEST(more_than_64_dimensions_are_refused),
    TEST(a_written_header_is_read_back),
    TEST(numpy_writes_the_same_header),
};

TEST_MAIN(tests)
