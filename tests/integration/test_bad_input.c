/* Bad input through the public library: each kind gets a code and a sentence that names
 * the thing and the limit, and leaves nothing behind. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/measure.h"
#include "support/test.h"

#define MIB (UINT64_C(1) << 20)
#define TWO_32 (INT64_C(1) << 32)

struct bench {
  struct test_daemon daemon;
  struct dlc_client *client;
  struct test_baseline before;
};

static int setup_with(void **state, const char *const *arguments)
{
  struct bench *bench = calloc(1, sizeof(*bench));

  assert_non_null(bench);
  *state = bench;
  test_daemon_init(&bench->daemon, arguments);
  bench->client = test_connect(&bench->daemon);
  bench->before = test_baseline_take(bench->client, &bench->daemon);
  return 0;
}

static int setup(void **state)
{
  return setup_with(state, NULL);
}

static int teardown(void **state)
{
  struct bench *bench = *state;

  dlc_close(bench->client);
  test_daemon_deinit(&bench->daemon);
  free(bench);
  return 0;
}

static void assert_nothing_left(struct bench *bench)
{
  test_baseline_wait(bench->client, &bench->daemon, &bench->before);
}

static const float some_values[4] = {1, 2, 3, 4};
static const int64_t some_shape[1] = {4};

static struct dlc_view good_view(void)
{
  return test_view_f32((float *)(uintptr_t)some_values, (int64_t *)(uintptr_t)some_shape, 1);
}

/* ---- names ---- */

#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define COMPONENT_255 HUNDRED HUNDRED TEN TEN TEN TEN TEN "01234"
#define NAME_1023 COMPONENT_255 "/" COMPONENT_255 "/" COMPONENT_255 "/" COMPONENT_255

static const struct {
  const char *name;
  const char *word;
} bad_names[] = {
    {"", "at least one character"},
    {NAME_1023 "/", "1023 bytes"},
    {NAME_1023 "/a", "1023 bytes"},
    {COMPONENT_255 "x", "255 bytes"},
    {"a/" COMPONENT_255 "x/b", "255 bytes"},
    {"/a", "slash"},
    {"a//b", "slash"},
    {"//", "slash"},
    {".", "'.'"},
    {"..", "'..'"},
    {"a/./b", "'.'"},
    {"a/..", "'..'"},
    {"../etc/passwd", "'..'"},
    {"@host/a", "'@'"},
    {"a@b", "'@'"},
    {"a/b@", "'@'"},
    {"\xff", "UTF-8"},
    {"a\xc0\x80", "UTF-8"},         /* NUL in two bytes */
    {"\xed\xa0\x80", "UTF-8"},      /* half a surrogate pair */
    {"a/\xe2\x82", "UTF-8"},        /* cut */
    {"\xf4\x90\x80\x80", "UTF-8"},  /* above U+10FFFF */
    {"\xe0\x80\xaf", "UTF-8"},      /* a slash in three bytes */
    {"a\nb", "control"},            /* LF */
    {"\x1b[31m", "control"},        /* ESC */
    {"a\x7f", "control"},           /* DEL */
    {"a\xc2\x85", "control"},       /* NEL */
    {"a\xe2\x80\x8b", "invisible"}, /* zero width space, Cf */
    {"\xe2\x80\xaegpj", "invisible"},
    {"\xef\xbb\xbf"
     "a",
     "invisible"},
    {"a\xe2\x80\xa8", "invisible"}, /* line separator, Zl */
    {"a\xe2\x80\xa9", "invisible"}, /* paragraph separator, Zp */
};

static void refuse_name(struct bench *bench, const char *name, const char *word)
{
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor, **tensors;
  struct dlc_info *info;
  struct dlc_error error;
  size_t n;
  char what[64];

  (void)snprintf(what, sizeof(what), "name '%.40s'", name);
  test_assert_refusal(what, dlc_put(bench->client, name, &view, NULL, NULL, &error), DLC_E_NAME,
                      &error, word, NULL);
  test_assert_refusal(what, dlc_get(bench->client, name, NULL, &tensor, &error), DLC_E_NAME, &error,
                      word, NULL);
  test_assert_refusal(what, dlc_stat(bench->client, name, &info, &error), DLC_E_NAME, &error, word,
                      NULL);
  test_assert_refusal(what, dlc_wait(bench->client, name, 0, 0, &info, &error), DLC_E_NAME, &error,
                      word, NULL);
  test_assert_refusal(what, dlc_get_many(bench->client, &name, 1, NULL, &tensors, &n, &error),
                      DLC_E_NAME, &error, word, NULL);
  if (name[0] && name[strlen(name) - 1] != '/')
    test_assert_refusal(what, dlc_delete(bench->client, name, 0, NULL, &error), DLC_E_NAME, &error,
                        word, NULL);
}

static void a_name_that_breaks_a_rule_is_refused_by_every_call_and_the_rule_is_told(void **state)
{
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(bad_names); i++)
    refuse_name(bench, bad_names[i].name, bad_names[i].word);
  assert_nothing_left(bench);
}

static void a_prefix_that_breaks_a_rule_is_not_watched(void **state)
{
  static const char *const prefixes[] = {"a//", "a@", "\xff", "a\n", "../", "/a"};
  struct bench *bench = *state;
  struct dlc_watch *watch;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(prefixes); i++)
    test_assert_refusal(prefixes[i], dlc_watch_open(bench->client, prefixes[i], 0, &watch, &error),
                        DLC_E_NAME, &error, "prefix", NULL);
  assert_nothing_left(bench);
}

static void a_name_of_another_owner_says_whose(void **state)
{
  static const struct {
    const char *name;
    int code;
    const char *word;
  } rows[] = {
      {"~", DLC_E_NAME, "~user/name"},
      {"~0", DLC_E_NAME, "~user/name"},
      {"~/a", DLC_E_NAME, "~user/name"},
      {"~0/", DLC_E_NAME, "at least one character"},
      {"~0//a", DLC_E_NAME, "slash"},
      {"~no-such-user/a", DLC_E_NOT_FOUND, "no-such-user"},
      {"~99999999999/a", DLC_E_NOT_FOUND, "99999999999"},
      {"~4294967295/a", DLC_E_NOT_FOUND, "4294967295"},
      {"~-1/a", DLC_E_NOT_FOUND, "-1"},
  };
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++)
    test_assert_refusal(rows[i].name,
                        dlc_put(bench->client, rows[i].name, &view, NULL, NULL, &error),
                        rows[i].code, &error, rows[i].word, NULL);
  assert_nothing_left(bench);
}

static void names_at_the_edge_of_the_grammar_work(void **state)
{
  static const char *const names[] = {
      NAME_1023,
      COMPONENT_255,
      "a",
      "a/~b",
      "a b",
      "...",
      ".a",
      "a.",
      "a/-",
      "\\",
      "\xe6\xa8\xa1\xe5\x9e\x8b/\xe5\xb1\xa4.0/\xc3\xbcn\xc3\xaf",
      "\xf0\x9f\xa6\x80",
      "\xf4\x8f\xbf\xbf" /* U+10FFFF */,
  };
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(names); i++) {
    test_ok(dlc_put(bench->client, names[i], &view, NULL, NULL, &error), &error);
    test_ok(dlc_get(bench->client, names[i], NULL, &tensor, &error), &error);
    assert_string_equal(dlc_tensor_info(tensor)->name, names[i]);
    tensor->deleter(tensor);
    test_ok(dlc_delete(bench->client, names[i], 0, NULL, &error), &error);
  }
  assert_nothing_left(bench);
}

/* ---- tensors ---- */

struct bad_tensor {
  const char *what;
  int code;
  const char *word;
  int32_t ndim;
  int64_t shape[4];
  bool has_strides;
  int64_t strides[4];
  uint64_t byte_offset;
  uint8_t dtype_code, dtype_bits; /* 0, 0: float32 */
  int32_t lanes;                  /* 0: one; -1: none */
  int32_t device_type;            /* 0: the CPU */
  bool no_data, no_shape;
};

static const struct bad_tensor bad_tensors[] = {
    {"ndim -1", DLC_E_LAYOUT, "ndim is -1", .ndim = -1},
    {"ndim INT_MIN", DLC_E_LAYOUT, "ndim", .ndim = INT_MIN},
    {"ndim 65", DLC_E_LAYOUT, "64", .ndim = 65},
    {"ndim INT_MAX", DLC_E_LAYOUT, "64", .ndim = INT_MAX},
    {"no shape", DLC_E_LAYOUT, "shape is NULL", .ndim = 1, .no_shape = true},
    {"dim -1", DLC_E_LAYOUT, "dimension 0", .ndim = 1, .shape = {-1}},
    {"dim (3, -2)", DLC_E_LAYOUT, "dimension 1 of the shape is -2", .ndim = 2, .shape = {3, -2}},
    {"dim (0, -1)", DLC_E_LAYOUT, "dimension 1", .ndim = 2, .shape = {0, -1}},
    {"dim INT64_MIN", DLC_E_LAYOUT, "dimension 0", .ndim = 1, .shape = {INT64_MIN}},
    {"2^32 x 2^32 x 16", DLC_E_LAYOUT, "63 bits", .ndim = 3, .shape = {TWO_32, TWO_32, 16}},
    {"2^32 x 2^32", DLC_E_LAYOUT, "63 bits", .ndim = 2, .shape = {TWO_32, TWO_32}},
    {"2^62 float32", DLC_E_LAYOUT, "63 bits", .ndim = 1, .shape = {INT64_C(1) << 62}},
    {"stride INT64_MAX", DLC_E_LAYOUT, "strides", .ndim = 1, .shape = {2}, .has_strides = true,
     .strides = {INT64_MAX}},
    {"stride INT64_MIN", DLC_E_LAYOUT, "strides", .ndim = 1, .shape = {3}, .has_strides = true,
     .strides = {INT64_MIN}},
    {"strides that add up", DLC_E_LAYOUT, "strides", .ndim = 2, .shape = {3, 3},
     .has_strides = true, .strides = {INT64_C(1) << 59, INT64_C(1) << 60}},
    {"strides below zero that add up", DLC_E_LAYOUT, "strides", .ndim = 2, .shape = {3, 3},
     .has_strides = true, .strides = {-(INT64_C(1) << 59), -(INT64_C(1) << 60)}},
    {"stride out of memory", DLC_E_LAYOUT, "address space", .ndim = 1, .shape = {2},
     .has_strides = true, .strides = {-(INT64_C(1) << 60)}},
    {"byte_offset 2^64-1", DLC_E_LAYOUT, "byte_offset 18446744073709551615", .ndim = 1,
     .shape = {4}, .byte_offset = UINT64_MAX},
    {"byte_offset 2^64-8", DLC_E_LAYOUT, "byte_offset 18446744073709551608", .ndim = 1,
     .shape = {4}, .byte_offset = UINT64_MAX - 7},
    {"data NULL", DLC_E_LAYOUT, "data is NULL", .ndim = 1, .shape = {4}, .no_data = true},
    {"data NULL, 0-d", DLC_E_LAYOUT, "data is NULL", .ndim = 0, .no_data = true},
    {"code 200", DLC_E_DTYPE, "code 200", .ndim = 1, .shape = {4}, .dtype_code = 200,
     .dtype_bits = 8},
    {"bits 0", DLC_E_DTYPE, "not 0", .ndim = 1, .shape = {4}, .dtype_code = 2, .dtype_bits = 0},
    {"bits 7", DLC_E_DTYPE, "not 7", .ndim = 1, .shape = {4}, .dtype_code = 2, .dtype_bits = 7},
    {"float128", DLC_E_DTYPE, "not 128", .ndim = 1, .shape = {1}, .dtype_code = 2,
     .dtype_bits = 128},
    {"complex256", DLC_E_DTYPE, "not 255", .ndim = 1, .shape = {1}, .dtype_code = 5,
     .dtype_bits = 255},
    {"fp6 in 8 bits", DLC_E_DTYPE, "6", .ndim = 1, .shape = {4}, .dtype_code = 15, .dtype_bits = 8},
    {"fp4 in 8 bits", DLC_E_DTYPE, "4", .ndim = 1, .shape = {4}, .dtype_code = 17, .dtype_bits = 8},
    {"bool in 1 bit", DLC_E_DTYPE, "8", .ndim = 1, .shape = {4}, .dtype_code = 6, .dtype_bits = 1},
    {"opaque handle", DLC_E_DTYPE, "own process", .ndim = 1, .shape = {4}, .dtype_code = 3,
     .dtype_bits = 64},
    {"lanes 0", DLC_E_DTYPE, "lanes", .ndim = 1, .shape = {4}, .lanes = -1},
    {"fp4 with gaps", DLC_E_LAYOUT, "packed", .ndim = 1, .shape = {4}, .has_strides = true,
     .strides = {2}, .dtype_code = 17, .dtype_bits = 4},
    {"CUDA", DLC_E_UNSUPPORTED, "kDLCUDA", .ndim = 1, .shape = {4}, .device_type = 2},
    {"OpenCL", DLC_E_UNSUPPORTED, "kDLOpenCL", .ndim = 1, .shape = {4}, .device_type = 4},
    {"Metal", DLC_E_UNSUPPORTED, "kDLMetal", .ndim = 1, .shape = {4}, .device_type = 8},
    {"ROCm", DLC_E_UNSUPPORTED, "kDLROCM", .ndim = 1, .shape = {4}, .device_type = 10},
    {"managed", DLC_E_UNSUPPORTED, "kDLCUDAManaged", .ndim = 1, .shape = {4}, .device_type = 13},
    {"Ascend", DLC_E_UNSUPPORTED, "kDLAscend", .ndim = 1, .shape = {4}, .device_type = 21},
    {"device 5, never assigned", DLC_E_UNSUPPORTED, "5", .ndim = 1, .shape = {4}, .device_type = 5},
    {"device -1", DLC_E_UNSUPPORTED, "-1", .ndim = 1, .shape = {4}, .device_type = -1},
    {"device INT_MAX", DLC_E_UNSUPPORTED, "2147483647", .ndim = 1, .shape = {4},
     .device_type = INT_MAX},
};

static struct dlc_view bad_view(const struct bad_tensor *row)
{
  struct dlc_view view = good_view();

  view.ndim = row->ndim;
  view.shape = row->no_shape ? NULL : row->shape;
  view.strides = row->has_strides ? row->strides : NULL;
  view.byte_offset = row->byte_offset;
  if (row->dtype_code) {
    view.dtype_code = row->dtype_code;
    view.dtype_bits = row->dtype_bits;
  }
  if (row->lanes)
    view.dtype_lanes = row->lanes < 0 ? 0 : (uint16_t)row->lanes;
  if (row->device_type)
    view.device_type = row->device_type;
  if (row->no_data)
    view.data = NULL;
  return view;
}

static int n_deleted;

static void count_versioned(struct DLManagedTensorVersioned *tensor)
{
  (void)tensor;
  n_deleted++;
}

static void count_legacy(struct DLManagedTensor *tensor)
{
  (void)tensor;
  n_deleted++;
}

/* A DLTensor is a dlc_view, field by field. */
static DLTensor as_dltensor(const struct dlc_view *view)
{
  DLTensor tensor;

  memcpy(&tensor, view, sizeof(tensor));
  return tensor;
}

static struct DLManagedTensorVersioned versioned_of(const struct dlc_view *view)
{
  return (struct DLManagedTensorVersioned){
      .version = {1, 3}, .deleter = count_versioned, .dl_tensor = as_dltensor(view)};
}

static struct DLManagedTensor legacy_of(const struct dlc_view *view)
{
  return (struct DLManagedTensor){.deleter = count_legacy, .dl_tensor = as_dltensor(view)};
}

static void refuse_tensor(struct bench *bench, const struct bad_tensor *row)
{
  struct dlc_view view = bad_view(row);
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct DLManagedTensor legacy = legacy_of(&view);
  struct dlc_error error;

  test_assert_refusal(row->what, dlc_put(bench->client, "a", &view, NULL, NULL, &error), row->code,
                      &error, row->word, NULL);
  n_deleted = 0;
  test_assert_refusal(row->what,
                      dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error),
                      row->code, &error, row->word, NULL);
  assert_int_equal(n_deleted, 1);
  test_assert_refusal(row->what, dlc_put_legacy(bench->client, "a", &legacy, NULL, NULL, &error),
                      row->code, &error, row->word, NULL);
  assert_int_equal(n_deleted, 2);
}

static void a_bad_tensor_is_refused_in_every_form_and_its_deleter_called_once(void **state)
{
  struct bench *bench = *state;
  struct dlc_info *info;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(bad_tensors); i++)
    refuse_tensor(bench, &bad_tensors[i]);
  test_refused(dlc_stat(bench->client, "a", &info, &error), DLC_E_NOT_FOUND, &error);
  assert_nothing_left(bench);
}

static void a_bad_prototype_is_not_allocated(void **state)
{
  struct bench *bench = *state;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(bad_tensors); i++) {
    const struct bad_tensor *row = &bad_tensors[i];
    struct dlc_view view = bad_view(row);

    /* Data, offset and strides of a prototype are not read. */
    if (row->no_data || row->byte_offset || row->has_strides)
      continue;
    test_assert_refusal(row->what, dlc_alloc(bench->client, &view, NULL, &tensor, &error),
                        row->code, &error, row->word, NULL);
  }
  assert_nothing_left(bench);
}

static void a_huge_shape_with_a_zero_in_it_is_an_empty_tensor(void **state)
{
  struct bench *bench = *state;
  const int64_t shape[3] = {TWO_32, TWO_32, 0};
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  view.ndim = 3;
  view.shape = shape;
  view.data = NULL;
  view.byte_offset = UINT64_MAX; /* of no element */
  test_ok(dlc_put(bench->client, "empty", &view, NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "empty", NULL, &tensor, &error), &error);
  assert_null(tensor->dl_tensor.data);
  assert_true(tensor->dl_tensor.shape[0] == TWO_32 && tensor->dl_tensor.shape[2] == 0);
  assert_non_null(tensor->dl_tensor.strides);
  tensor->deleter(tensor);
  test_ok(dlc_delete(bench->client, "empty", 0, NULL, &error), &error);
  assert_nothing_left(bench);
}

static void sixty_four_dimensions_work(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  int64_t shape[64];

  for (size_t i = 0; i < 64; i++)
    shape[i] = i == 63 ? 4 : 1;
  view.ndim = 64;
  view.shape = shape;
  test_ok(dlc_put(bench->client, "deep", &view, NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, "deep", NULL, &tensor, &error), &error);
  assert_int_equal(tensor->dl_tensor.ndim, 64);
  assert_memory_equal(tensor->dl_tensor.shape, shape, sizeof(shape));
  assert_memory_equal(tensor->dl_tensor.data, some_values, sizeof(some_values));
  tensor->deleter(tensor);
}

/* ---- DLPack's forms ---- */

/* The struct ends at the end of a page, right behind its deleter; what would follow is
 * not there to be read. */
static void of_a_foreign_major_version_only_the_deleter_is_touched(void **state)
{
  struct bench *bench = *state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *memory =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  static const uint32_t majors[] = {0, 2, 3, UINT32_MAX};

  assert_ptr_not_equal(memory, MAP_FAILED);
  assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
  tensor = (struct DLManagedTensorVersioned *)(memory + page -
                                               offsetof(struct DLManagedTensorVersioned, flags));
  tensor->deleter = count_versioned;
  for (size_t i = 0; i < TEST_ARRAY_SIZE(majors); i++) {
    tensor->version = (DLPackVersion){majors[i], 7};
    n_deleted = 0;
    test_assert_refusal("a foreign major",
                        dlc_put_managed(bench->client, "a", tensor, NULL, NULL, &error),
                        DLC_E_VERSION, &error, ".7", "version 1");
    assert_int_equal(n_deleted, 1);
  }
  assert_int_equal(munmap(memory, 2 * page), 0);
  assert_nothing_left(bench);
}

static void a_later_minor_version_is_taken(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct dlc_error error;

  versioned.version.minor = 99;
  n_deleted = 0;
  test_ok(dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error), &error);
  assert_int_equal(n_deleted, 1);
}

static void unknown_flags_are_refused_and_named(void **state)
{
  static const uint64_t flags[] = {1 << 3, UINT64_C(1) << 63, UINT64_MAX};
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct dlc_error error;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(flags); i++) {
    versioned.flags = flags[i];
    n_deleted = 0;
    test_assert_refusal("flags",
                        dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error),
                        DLC_E_UNSUPPORTED, &error, "flags 0x", NULL);
    assert_int_equal(n_deleted, 1);
  }
  assert_nothing_left(bench);
}

static void padding_is_of_types_below_a_byte_only(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct dlc_error error;

  versioned.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  test_assert_refusal("padded float32",
                      dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error),
                      DLC_E_DTYPE, &error, "padded", "32");
  assert_nothing_left(bench);
}

static void a_tensor_without_a_deleter_is_put_and_refused_like_others(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct DLManagedTensor legacy = legacy_of(&view);
  struct dlc_error error;

  versioned.deleter = NULL;
  legacy.deleter = NULL;
  test_ok(dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error), &error);
  test_ok(dlc_put_legacy(bench->client, "a", &legacy, NULL, NULL, &error), &error);
  test_refused(dlc_put_managed(bench->client, "", &versioned, NULL, NULL, &error), DLC_E_NAME,
               &error);
  test_refused(dlc_put_legacy(bench->client, "", &legacy, NULL, NULL, &error), DLC_E_NAME, &error);
}

static void the_deleter_runs_once_whatever_else_is_wrong(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned versioned = versioned_of(&view);
  struct DLManagedTensor legacy = legacy_of(&view);
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  struct dlc_error error;

  options.lifetime = 77;
  n_deleted = 0;
  test_refused(dlc_put_managed(NULL, "a", &versioned, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_put_legacy(NULL, "a", &legacy, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_put_managed(bench->client, NULL, &versioned, NULL, NULL, &error), DLC_E_INVALID,
               &error);
  test_refused(dlc_put_managed(bench->client, "a", &versioned, &options, NULL, &error),
               DLC_E_INVALID, &error);
  assert_int_equal(n_deleted, 4);
  test_ok(dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error), &error);
  test_ok(dlc_put_legacy(bench->client, "a", &legacy, NULL, NULL, NULL), &error);
  assert_int_equal(n_deleted, 6);
  test_daemon_kill(&bench->daemon);
  assert_int_not_equal(dlc_put_managed(bench->client, "a", &versioned, NULL, NULL, &error), 0);
  assert_int_not_equal(dlc_put_legacy(bench->client, "a", &legacy, NULL, NULL, &error), 0);
  assert_int_equal(n_deleted, 8);
  test_daemon_start(&bench->daemon);
  test_refused(dlc_put_managed(bench->client, "a", NULL, NULL, NULL, &error), DLC_E_INVALID,
               &error);
  test_refused(dlc_put_legacy(bench->client, "a", NULL, NULL, NULL, &error), DLC_E_INVALID, &error);
}

/* ---- space ---- */

#define MUCH "1000T"

static const struct {
  const char *what;
  const char *arguments[5];
  uint64_t too_much;
  int code;
  const char *word;
  const char *other_word;
} space_rows[] = {
    {"the daemon's limit",
     {"--max-bytes", "8M", "--user-bytes", MUCH, NULL},
     9 * MIB,
     DLC_E_NO_SPACE,
     "limit of 8388608 bytes",
     "max-bytes"},
    {"the user's quota",
     {"--max-bytes", MUCH, "--user-bytes", "8M", NULL},
     9 * MIB,
     DLC_E_QUOTA,
     "8388608 bytes",
     "user-bytes"},
    {"the memory there is",
     {"--max-bytes", MUCH, "--user-bytes", MUCH, NULL},
     MIB << 26,
     DLC_E_NO_SPACE,
     "memory",
     NULL},
    {"what no host has",
     {"--max-bytes", MUCH, "--user-bytes", MUCH, NULL},
     MIB << 42,
     DLC_E_NO_SPACE,
     NULL,
     NULL},
};

static int alloc_bytes(struct bench *bench, uint64_t size, struct DLManagedTensorVersioned **ret,
                       struct dlc_error *reterr)
{
  const int64_t shape = (int64_t)size;
  struct dlc_view view = good_view();

  view.dtype_code = kDLUInt;
  view.dtype_bits = 8;
  view.ndim = 1;
  view.shape = &shape;
  return dlc_alloc(bench->client, &view, NULL, ret, reterr);
}

/* A create that failed leaves no entry: a get does not hang, the name is free. */
static void name_is_free(struct bench *bench, const char *name)
{
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  int64_t start = test_now_us();

  options.timeout_ms = 100;
  test_refused(dlc_get(bench->client, name, &options, &tensor, &error), DLC_E_TIMEOUT, &error);
  assert_true(test_now_us() - start < 5000000);
  test_ok(dlc_put(bench->client, name, &view, NULL, NULL, &error), &error);
  test_ok(dlc_get(bench->client, name, &options, &tensor, &error), &error);
  tensor->deleter(tensor);
  test_ok(dlc_delete(bench->client, name, 0, NULL, &error), &error);
}

static void case_10_22_space_that_is_not_there_is_refused_by_what_ran_out(void **state)
{
  const size_t row = (size_t)(uintptr_t)*state;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  struct bench *bench;

  (void)setup_with(state, space_rows[row].arguments);
  bench = *state;
  for (int i = 0; i < 3; i++)
    test_assert_refusal(
        space_rows[row].what, alloc_bytes(bench, space_rows[row].too_much, &tensor, &error),
        space_rows[row].code, &error, space_rows[row].word, space_rows[row].other_word);
  assert_nothing_left(bench);
  name_is_free(bench, "w");
  assert_nothing_left(bench);
}

/* Every megabyte that is refused in the middle of a generation comes back. */
static void a_generation_that_does_not_fit_gives_back_what_did(void **state)
{
  static const char *const arguments[] = {"--max-bytes", "8M", NULL};
  static uint8_t bytes[3 * MIB];
  const int64_t shape = sizeof(bytes);
  struct dlc_view view = good_view();
  struct dlc_generation *generation;
  struct dlc_error error;
  struct bench *bench;
  int r = 0;

  (void)setup_with(state, arguments);
  bench = *state;
  view.data = bytes;
  view.dtype_code = kDLUInt;
  view.dtype_bits = 8;
  view.shape = &shape;
  test_ok(dlc_begin(bench->client, NULL, &generation, &error), &error);
  for (int i = 0; i < 4 && r == 0; i++) {
    char name[] = "g/0";
    name[2] = (char)('0' + i);
    r = dlc_add_copy(generation, name, &view, NULL, &error);
  }
  if (r == 0)
    r = dlc_commit(generation, NULL, &error);
  test_assert_refusal("a generation of 12 MiB", r, DLC_E_NO_SPACE, &error, "max-bytes", NULL);
  dlc_generation_free(generation);
  assert_nothing_left(bench);
}

static void the_number_of_tensors_is_limited_and_the_limit_named(void **state)
{
  static const char *const arguments[] = {"--user-tensors", "3", NULL};
  struct dlc_view view = good_view();
  struct dlc_error error;
  struct bench *bench;

  (void)setup_with(state, arguments);
  bench = *state;
  for (int i = 0; i < 3; i++) {
    char name[2] = {(char)('a' + i), '\0'};
    test_ok(dlc_put(bench->client, name, &view, NULL, NULL, &error), &error);
  }
  test_assert_refusal("a fourth tensor", dlc_put(bench->client, "d", &view, NULL, NULL, &error),
                      DLC_E_QUOTA, &error, "3 tensors", "user-tensors");
  test_ok(dlc_delete(bench->client, "a", 0, NULL, &error), &error);
  test_ok(dlc_put(bench->client, "d", &view, NULL, NULL, &error), &error);
}

static void leases_are_limited_and_the_limit_named(void **state)
{
  static const char *const arguments[] = {"--user-leases", "2", NULL};
  struct DLManagedTensorVersioned *tensors[3] = {NULL};
  struct dlc_view view = good_view();
  struct dlc_error error;
  struct bench *bench;

  (void)setup_with(state, arguments);
  bench = *state;
  for (int i = 0; i < 3; i++) {
    char name[2] = {(char)('a' + i), '\0'};
    test_ok(dlc_put(bench->client, name, &view, NULL, NULL, &error), &error);
  }
  test_ok(dlc_get(bench->client, "a", NULL, &tensors[0], &error), &error);
  test_ok(dlc_get(bench->client, "b", NULL, &tensors[1], &error), &error);
  test_assert_refusal("a third lease", dlc_get(bench->client, "c", NULL, &tensors[2], &error),
                      DLC_E_QUOTA, &error, "2 leases", "user-leases");
  tensors[0]->deleter(tensors[0]);
  test_ok(dlc_get(bench->client, "c", NULL, &tensors[2], &error), &error);
  tensors[1]->deleter(tensors[1]);
  tensors[2]->deleter(tensors[2]);
}

static void sessions_are_limited_and_the_limit_named(void **state)
{
  static const char *const arguments[] = {"--user-sessions", "2", NULL};
  struct dlc_client *second, *third = NULL;
  struct dlc_error error;
  struct bench *bench;

  (void)setup_with(state, arguments);
  bench = *state;
  second = test_connect(&bench->daemon);
  test_assert_refusal("a third session", dlc_connect(bench->daemon.socket, NULL, &third, &error),
                      DLC_E_QUOTA, &error, "2 sessions", "user-sessions");
  assert_null(third);
  dlc_close(second);
  test_wait_counter(bench->client, "sessions", 1);
  third = test_connect(&bench->daemon);
  dlc_close(third);
}

/* ---- options and attributes ---- */

static struct dlc_publish_options with_attributes(const struct dlc_attribute *attributes, size_t n)
{
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;

  options.attributes = attributes;
  options.n_attributes = n;
  return options;
}

static void refuse_options(struct bench *bench, const char *what, int code,
                           const struct dlc_publish_options *options, const char *word)
{
  struct dlc_view view = good_view();
  struct dlc_error error;

  test_assert_refusal(what, dlc_put(bench->client, "a", &view, options, NULL, &error), code, &error,
                      word, NULL);
}

static void attributes_have_limits_that_are_named(void **state)
{
  static char long_value[4097], long_key[257];
  const struct {
    const char *what, *key, *value, *word;
  } rows[] = {
      {"no key", NULL, "v", "NULL"},
      {"no value", "k", NULL, "NULL"},
      {"an empty key", "", "v", "1 to 255"},
      {"a key of 256 bytes", long_key, "v", "1 to 255"},
      {"4097 bytes", "k", long_value, "4096 bytes"},
      {"a key that is not UTF-8", "\xff", "v", "UTF-8"},
      {"a value that is not UTF-8", "k", "\xc0\x80", "UTF-8"},
  };
  struct bench *bench = *state;

  memset(long_value, 'v', sizeof(long_value) - 1);
  memset(long_key, 'k', sizeof(long_key) - 1);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct dlc_attribute attributes[2] = {{"a", "b"}, {rows[i].key, rows[i].value}};
    struct dlc_publish_options options = with_attributes(attributes, 2);

    refuse_options(bench, rows[i].what, DLC_E_INVALID, &options, rows[i].word);
  }
  assert_nothing_left(bench);
}

static void an_attribute_is_given_once(void **state)
{
  static const struct dlc_attribute twice[3] = {{"k", "1"}, {"l", "2"}, {"k", "3"}};
  struct bench *bench = *state;
  struct dlc_publish_options options = with_attributes(twice, 3);

  refuse_options(bench, "the same key twice", DLC_E_INVALID, &options, "same key");
  options.attributes = NULL;
  refuse_options(bench, "attributes NULL", DLC_E_INVALID, &options, "attributes is NULL");
  options.n_attributes = SIZE_MAX;
  refuse_options(bench, "SIZE_MAX of them", DLC_E_INVALID, &options, NULL);
  assert_nothing_left(bench);
}

static void attributes_up_to_the_limit_come_back(void **state)
{
  static char value[4000];
  const struct dlc_attribute attributes[2] = {{"z", ""}, {"long", value}};
  struct dlc_publish_options options = with_attributes(attributes, 2);
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct dlc_info *info;
  struct dlc_error error;

  memset(value, 'v', sizeof(value) - 1);
  test_ok(dlc_put(bench->client, "a", &view, &options, NULL, &error), &error);
  test_ok(dlc_stat(bench->client, "a", &info, &error), &error);
  assert_int_equal(info->n_attributes, 2);
  assert_string_equal(dlc_info_attribute(info, "long"), value);
  assert_string_equal(dlc_info_attribute(info, "z"), "");
  dlc_info_free(info);
}

static void options_out_of_range_are_refused_by_name(void **state)
{
  const struct {
    const char *what;
    struct dlc_publish_options options;
    int code;
    const char *word;
  } rows[] = {
      {"lifetime", {.lifetime = 4}, DLC_E_INVALID, "lifetime"},
      {"backend", {.backend = 3}, DLC_E_INVALID, "backend"},
      {"flags", {.flags = 1 << 4}, DLC_E_INVALID, "flags"},
      {"mutable and frozen", {.flags = DLC_MUTABLE | DLC_FROZEN}, DLC_E_INVALID, "exclude"},
      {"mode with x", {.mode = 0755}, DLC_E_INVALID, "mode"},
      {"mode with setuid", {.mode = 04600}, DLC_E_INVALID, "mode"},
      {"has_gid", {.has_gid = 2}, DLC_E_INVALID, "has_gid"},
      {"ttl of 0", {.lifetime = DLC_LIFETIME_TTL}, DLC_E_INVALID, NULL},
      {"posix-shm for others",
       {.backend = DLC_BACKEND_POSIX_SHM, .mode = 0644},
       DLC_E_UNSUPPORTED,
       "posix-shm"},
  };
  struct bench *bench = *state;

  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct dlc_publish_options options = rows[i].options;

    options.struct_size = sizeof(options);
    refuse_options(bench, rows[i].what, rows[i].code, &options, rows[i].word);
  }
  assert_nothing_left(bench);
}

static void get_options_out_of_range_are_refused(void **state)
{
  const struct dlc_get_options rows[] = {
      {.access = 4}, {.flags = 1}, {.timeout_ms = -2}, {.reserved = 1}, {.timeout_ms = INT_MIN},
  };
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;

  test_ok(dlc_put(bench->client, "a", &view, NULL, NULL, &error), &error);
  for (size_t i = 0; i < TEST_ARRAY_SIZE(rows); i++) {
    struct dlc_get_options options = rows[i];

    options.struct_size = sizeof(options);
    test_assert_refusal("get options", dlc_get(bench->client, "a", &options, &tensor, &error),
                        DLC_E_INVALID, &error, NULL, NULL);
  }
  assert_int_equal(test_counter(bench->client, "leases"), 0);
}

static void null_where_something_is_due_is_refused(void **state)
{
  struct bench *bench = *state;
  struct dlc_view view = good_view();
  struct DLManagedTensorVersioned *tensor;
  struct dlc_watch *watch;
  struct dlc_info *info;
  struct dlc_error error;

  test_refused(dlc_put(NULL, "a", &view, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_put(bench->client, NULL, &view, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_put(bench->client, "a", NULL, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_get(bench->client, NULL, NULL, &tensor, &error), DLC_E_INVALID, &error);
  test_refused(dlc_get(bench->client, "a", NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_stat(bench->client, NULL, &info, &error), DLC_E_INVALID, &error);
  test_refused(dlc_delete(bench->client, NULL, 0, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_list(bench->client, NULL, NULL, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_watch_open(bench->client, NULL, 0, NULL, &error), DLC_E_INVALID, &error);
  test_refused(dlc_watch_open(NULL, NULL, 0, &watch, &error), DLC_E_INVALID, &error);
  test_refused(dlc_ping(NULL, NULL, &error), DLC_E_INVALID, &error);
  assert_int_equal(dlc_put(bench->client, "", &view, NULL, NULL, NULL), -DLC_E_NAME);
  assert_nothing_left(bench);
}

#define with_bench(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
/* These start a daemon of their own. */
#define with_limits(test, row)                                     \
  {                                                                \
#test " " #row, test, NULL, teardown, (void *)(uintptr_t)(row) \
  }

static const struct CMUnitTest tests[] = {
    with_bench(a_name_that_breaks_a_rule_is_refused_by_every_call_and_the_rule_is_told),
    with_bench(a_prefix_that_breaks_a_rule_is_not_watched),
    with_bench(a_name_of_another_owner_says_whose),
    with_bench(names_at_the_edge_of_the_grammar_work),
    with_bench(a_bad_tensor_is_refused_in_every_form_and_its_deleter_called_once),
    with_bench(a_bad_prototype_is_not_allocated),
    with_bench(a_huge_shape_with_a_zero_in_it_is_an_empty_tensor),
    with_bench(sixty_four_dimensions_work),
    with_bench(of_a_foreign_major_version_only_the_deleter_is_touched),
    with_bench(a_later_minor_version_is_taken),
    with_bench(unknown_flags_are_refused_and_named),
    with_bench(padding_is_of_types_below_a_byte_only),
    with_bench(a_tensor_without_a_deleter_is_put_and_refused_like_others),
    with_bench(the_deleter_runs_once_whatever_else_is_wrong),
    with_limits(case_10_22_space_that_is_not_there_is_refused_by_what_ran_out, 0),
    with_limits(case_10_22_space_that_is_not_there_is_refused_by_what_ran_out, 1),
    with_limits(case_10_22_space_that_is_not_there_is_refused_by_what_ran_out, 2),
    with_limits(case_10_22_space_that_is_not_there_is_refused_by_what_ran_out, 3),
    with_limits(a_generation_that_does_not_fit_gives_back_what_did, 0),
    with_limits(the_number_of_tensors_is_limited_and_the_limit_named, 0),
    with_limits(leases_are_limited_and_the_limit_named, 0),
    with_limits(sessions_are_limited_and_the_limit_named, 0),
    with_bench(attributes_have_limits_that_are_named),
    with_bench(an_attribute_is_given_once),
    with_bench(attributes_up_to_the_limit_come_back),
    with_bench(options_out_of_range_are_refused_by_name),
    with_bench(get_options_out_of_range_are_refused),
    with_bench(null_where_something_is_due_is_refused),
};

TEST_MAIN(tests)
