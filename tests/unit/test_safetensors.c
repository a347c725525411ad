#include "support/test.h"

#include <string.h>

#include "dlclient_dlpack.h"
#include "safetensors.h"

struct fixture {
  struct text bytes;
  struct text reason;
  struct safetensors file;
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

  text_deinit(&fixture->bytes);
  text_deinit(&fixture->reason);
  safetensors_deinit(&fixture->file);
  return 0;
}

static int parse_claiming(struct fixture *fixture, uint64_t length, const char *header,
                          uint64_t data_size)
{
  uint8_t prefix[8];

  for (unsigned i = 0; i < 8; i++)
    prefix[i] = (uint8_t)(length >> (8 * i));
  text_clear(&fixture->bytes);
  text_clear(&fixture->reason);
  safetensors_deinit(&fixture->file);
  text_append_bytes(&fixture->bytes, prefix, sizeof(prefix));
  text_append(&fixture->bytes, header);
  return safetensors_parse(fixture->bytes.data, fixture->bytes.size,
                           fixture->bytes.size + data_size, &fixture->file, &fixture->reason);
}

static int parse(struct fixture *fixture, const char *header, uint64_t data_size)
{
  return parse_claiming(fixture, strlen(header), header, data_size);
}

static void assert_refused(struct fixture *fixture, const char *header, uint64_t data_size,
                           const char *part)
{
  assert_int_equal(parse(fixture, header, data_size), SAFETENSORS_E_FORMAT);
  if (!strstr(text_string(&fixture->reason), part))
    fail_msg("'%s' does not say '%s'", text_string(&fixture->reason), part);
  assert_null(fixture->file.tensors);
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]" \
  "}"

static void tensors_come_in_the_order_of_their_bytes(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(
      parse(fixture,
            "{" TENSOR("b", "F32", "[2,1]", "4", "12") "," TENSOR(
                "a", "BF16", "[2]", "0", "4") "," TENSOR("e", "I8", "[0]", "12", "12") "}",
            12),
      0);
  assert_int_equal(fixture->file.n_tensors, 3);
  assert_string_equal(fixture->file.tensors[0].name, "a");
  assert_int_equal(fixture->file.tensors[0].dtype.code, kDLBfloat);
  assert_string_equal(fixture->file.tensors[1].name, "b");
  assert_int_equal(fixture->file.tensors[1].ndim, 2);
  assert_int_equal(fixture->file.data_offset, fixture->bytes.size);
}

static void every_dtype_of_the_format_is_known_with_its_size(void **state)
{
  static const struct {
    const char *name;
    const char *end; /* of 8 elements, in bytes */
  } dtypes[] = {
      {"BOOL", "8"},    {"U8", "8"},          {"I8", "8"},          {"U16", "16"},
      {"I16", "16"},    {"F16", "16"},        {"BF16", "16"},       {"U32", "32"},
      {"I32", "32"},    {"F32", "32"},        {"U64", "64"},        {"I64", "64"},
      {"F64", "64"},    {"C64", "64"},        {"F8_E4M3", "8"},     {"F8_E5M2", "8"},
      {"F8_E8M0", "8"}, {"F8_E4M3FNUZ", "8"}, {"F8_E5M2FNUZ", "8"}, {"F6_E2M3", "6"},
      {"F6_E3M2", "6"}, {"F4", "4"},
  };

  for (size_t i = 0; i < TEST_ARRAY_SIZE(dtypes); i++) {
    cli_auto_text struct text header = {0};

    text_printf(&header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%s]}}",
                dtypes[i].name, dtypes[i].end);
    assert_int_equal(parse(*state, text_string(&header), strtoull(dtypes[i].end, NULL, 10)), 0);
  }
}

static void metadata_is_kept(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse(fixture, "{\"__metadata__\":{\"format\":\"pt\"}}", 0), 0);
  assert_int_equal(fixture->file.n_tensors, 0);
  assert_string_equal(fixture->file.metadata, "{\"format\":\"pt\"}");
  assert_refused(fixture, "{\"__metadata__\":{\"a\":1}}", 0, "not a string");
  assert_refused(fixture, "{\"__metadata__\":[]}", 0, "__metadata__");
}

static void a_length_that_cannot_be_is_refused(void **state)
{
  struct fixture *fixture = *state;

  assert_int_equal(parse_claiming(fixture, 3, "{}", 0), SAFETENSORS_E_FORMAT);
  assert_int_equal(parse_claiming(fixture, UINT64_MAX, "{}", 0), SAFETENSORS_E_FORMAT);
  assert_int_equal(parse_claiming(fixture, 0, "{}", 0), SAFETENSORS_E_FORMAT);
  /* The file would be long enough, what was read of it is not. */
  assert_int_equal(parse_claiming(fixture, 50, "{}", 1000), SAFETENSORS_E_FORMAT);
  assert_int_equal(safetensors_parse("abc", 3, 3, &fixture->file, &fixture->reason),
                   SAFETENSORS_E_FORMAT);
}

static void a_header_that_is_not_an_object_is_refused(void **state)
{
  assert_refused(*state, "[1]", 0, "'{'");
  assert_refused(*state, "{\"a\":", 0, "not JSON");
  assert_refused(*state, "{\"a\":1}", 0, "no dtype");
  assert_refused(*state, "{\"a\xff\":1}", 0, "not JSON");
  assert_refused(*state, "{\"a\\u0000b\":1}", 0, "not JSON");
}

static void a_name_twice_is_refused(void **state)
{
  assert_refused(*state,
                 "{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("a", "U8", "[1]", "1", "2") "}",
                 2, "not JSON");
}

static void holes_overlaps_and_left_overs_are_refused(void **state)
{
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "1", "2") "}", 2, "hole of 1 bytes");
  assert_refused(*state,
                 "{" TENSOR("a", "U8", "[2]", "0", "2") "," TENSOR("b", "U8", "[2]", "1", "3") "}",
                 3, "overlap");
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "0", "1") "}", 3, "belong to no tensor");
  assert_refused(*state, "{}", 1, "belong to no tensor");
}

static void ranges_must_fit_shape_and_file(void **state)
{
  assert_refused(*state, "{" TENSOR("a", "F32", "[2]", "0", "7") "}", 7, "need 8 bytes");
  assert_refused(*state, "{" TENSOR("a", "F32", "[2]", "0", "8") "}", 7, "the file has 7");
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "1", "0") "}", 1, "begin and an end");
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "-1", "0") "}", 1, "begin and an end");
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "0", "1.0") "}", 1, "begin and an end");
  assert_refused(*state, "{" TENSOR("a", "U8", "[1]", "0", "9999999999999999999") "}", 1, "JSON");
}

static void shapes_that_cannot_be_are_refused(void **state)
{
  assert_refused(*state, "{" TENSOR("a", "U8", "[-1]", "0", "1") "}", 1, "dimension 0");
  assert_refused(*state, "{" TENSOR("a", "U8", "[\"1\"]", "0", "1") "}", 1, "dimension 0");
  assert_refused(*state, "{" TENSOR("a", "U8", "1", "0", "1") "}", 1, "no shape");
  assert_refused(*state, "{" TENSOR("a", "F4", "[3]", "0", "1") "}", 1, "whole number");
  assert_refused(*state, "{" TENSOR("a", "U8", "[4294967296,4294967296,4294967296]", "0", "0") "}",
                 0, "whole number");
  assert_refused(*state, "{" TENSOR("a", "X9", "[1]", "0", "1") "}", 1, "dtype 'X9'");
}

static struct safetensors_tensor make_tensor(char *name, struct dtype dtype, int64_t dim,
                                             size_t index)
{
  return (struct safetensors_tensor){
      .name = name, .dtype = dtype, .ndim = 1, .shape = {dim}, .index = index};
}

static void a_made_header_is_read_back_aligned_and_widest_first(void **state)
{
  struct fixture *fixture = *state;
  char names[][8] = {"byte", "z", "a\"\\/", "half"};
  struct safetensors_tensor tensors[] = {
      make_tensor(names[0], (struct dtype){kDLUInt, 8, 1}, 3, 0),
      make_tensor(names[1], (struct dtype){kDLFloat, 64, 1}, 2, 1),
      make_tensor(names[2], (struct dtype){kDLInt, 64, 1}, 1, 2),
      make_tensor(names[3], (struct dtype){kDLBfloat, 16, 1}, 1, 3),
  };

  assert_int_equal(
      safetensors_format(&fixture->bytes, tensors, 4, "{\"k\":\"v\"}", &fixture->reason), 0);
  assert_int_equal(fixture->bytes.size % 8, 0);
  assert_int_equal(safetensors_parse(fixture->bytes.data, fixture->bytes.size,
                                     fixture->bytes.size + 29, &fixture->file, &fixture->reason),
                   0);
  assert_string_equal(fixture->file.tensors[0].name, "a\"\\/");
  assert_string_equal(fixture->file.tensors[1].name, "z");
  assert_string_equal(fixture->file.tensors[2].name, "half");
  assert_string_equal(fixture->file.tensors[3].name, "byte");
  assert_int_equal(tensors[0].index, 2);
  assert_int_equal(tensors[3].index, 0);
  assert_string_equal(fixture->file.metadata, "{\"k\":\"v\"}");
}

static void a_name_that_the_format_keeps_for_itself_is_refused(void **state)
{
  struct fixture *fixture = *state;
  char name[] = "__metadata__";
  struct safetensors_tensor tensor = make_tensor(name, (struct dtype){kDLUInt, 8, 1}, 1, 0);

  assert_int_equal(safetensors_format(&fixture->bytes, &tensor, 1, "{}", &fixture->reason),
                   SAFETENSORS_E_FORMAT);
  text_clear(&fixture->bytes);
  assert_int_equal(safetensors_format(&fixture->bytes, &tensor, 1, NULL, &fixture->reason),
                   SAFETENSORS_E_FORMAT);
}

static void a_kept_header_says_how_long_its_file_was(void **state)
{
  struct fixture *fixture = *state;
  static const char header[] = "{" TENSOR("a", "U8", "[5]", "0", "5") "}";

  assert_int_equal(parse(fixture, header, 5), 0);
  safetensors_deinit(&fixture->file);
  assert_int_equal(safetensors_parse(fixture->bytes.data, fixture->bytes.size,
                                     SAFETENSORS_SIZE_UNKNOWN, &fixture->file, &fixture->reason),
                   0);
  assert_int_equal(fixture->file.data_size, 5);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static const struct CMUnitTest tests[] = {
    TEST(tensors_come_in_the_order_of_their_bytes),
    TEST(every_dtype_of_the_format_is_known_with_its_size),
    TEST(metadata_is_kept),
    TEST(a_length_that_cannot_be_is_refused),
    TEST(a_header_that_is_not_an_object_is_refused),
    TEST(a_name_twice_is_refused),
    TEST(holes_overlaps_and_left_overs_are_refused),
    TEST(ranges_must_fit_shape_and_file),
    TEST(shapes_that_cannot_be_are_refused),
    TEST(a_made_header_is_read_back_aligned_and_widest_first),
    TEST(a_name_that_the_format_keeps_for_itself_is_refused),
    TEST(a_kept_header_says_how_long_its_file_was),
};

TEST_MAIN(tests)
