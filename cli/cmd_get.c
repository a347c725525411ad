#include "cmd_get.h"

#include <errno.h>
#include <string.h>

#include "escape.h"
#include "npy.h"
#include "number.h"
#include "sink.h"

enum {
  OPTION_TYPE = CMD_OPTION_OWN,
  OPTION_RAW,
  OPTION_VERSION,
};

static inline void tensor_deletep(DLManagedTensorVersioned **tensor)
{
  if (*tensor)
    (*tensor)->deleter(*tensor);
}

static int parse(struct getting *getting, int argc, char **argv)
{
  static const struct option options[] = {
      {"type", required_argument, NULL, OPTION_TYPE},
      {"raw", no_argument, NULL, OPTION_RAW},
      {"version", required_argument, NULL, OPTION_VERSION},
      CMD_COMMON_OPTIONS,
  };
  struct cmd_context *context = getting->context;
  int option;

  context->exit_code = CMD_DONE;
  while ((option = cmd_option(context, argc, argv, ":", options)) != -1) {
    if (option < CMD_OPTION_OWN)
      return -1;
    if (option == OPTION_RAW)
      getting->type = FILE_TYPE_RAW;
    else if (option == OPTION_TYPE && !file_type_parse(optarg, &getting->type))
      context->exit_code =
          cmd_usage(context, "--type: '%s' is none of npy, safetensors and raw", optarg);
    else if (option == OPTION_VERSION &&
             (number_parse_u64(optarg, 10, &getting->version) != 0 || getting->version == 0))
      context->exit_code = cmd_usage(context, "--version: '%s' is not a version", optarg);
    if (context->exit_code != CMD_DONE)
      return -1;
  }
  context->exit_code = cmd_check_arguments(context, argc, 2, 2);
  getting->name = argv[optind];
  getting->path = context->exit_code == CMD_DONE ? argv[optind + 1] : NULL;
  return context->exit_code == CMD_DONE ? 0 : -1;
}

int get_fail_write(const struct getting *getting, int error)
{
  if (error == -EPIPE)
    return CMD_DONE;
  return cmd_fail(getting->context, "%s: %s", getting->path, strerror(-error));
}

static int refuse_npy(const struct getting *getting, const DLTensor *tensor)
{
  char name[48];

  (void)dlc_dtype_name(tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes, name,
                       sizeof(name));
  return cmd_fail(getting->context,
                  "'%s' is %s, which .npy has no name for; write a .safetensors file, or its "
                  "bytes with --raw",
                  getting->name, name);
}

/* NumPy calls an array column-major only if it is not row-major too. */
static int write_npy(struct file_out *file, const DLManagedTensorVersioned *managed,
                     struct progress *progress)
{
  const DLTensor *tensor = &managed->dl_tensor;
  struct layout layout = sink_layout(tensor);
  bool fortran_order = !layout_is_row_major(&layout) && layout_is_column_major(&layout);
  cli_auto_text struct text header = {0};
  int r;

  npy_format(&header, sink_dtype(tensor), fortran_order, tensor->ndim, tensor->shape);
  if (header.failed)
    return -ENOMEM;
  r = file_out_write(file, text_string(&header), header.size);
  if (r < 0)
    return r;
  return fortran_order ? sink_write_as_it_lies(file, managed, progress)
                       : sink_write(file, managed, progress);
}

static int write_tensor(const struct getting *getting, const DLManagedTensorVersioned *managed)
{
  cli_auto_text struct text label = {0};
  cli_cleanup_(progress_deinit) struct progress progress = {0};
  cli_cleanup_(file_out_close) struct file_out file = {.fd = -1};
  int r;

  text_append(&label, "get ");
  escape_terminal(&label, getting->name);
  r = file_out_open(&file, getting->path);
  if (r < 0)
    return get_fail_write(getting, r);
  progress_init(&progress, text_string(&label), sink_size(managed));
  if (getting->type == FILE_TYPE_NPY)
    r = write_npy(&file, managed, &progress);
  else
    r = sink_write(&file, managed, &progress);
  if (r == 0)
    r = file_out_commit(&file);
  progress_deinit(&progress);
  return r < 0 ? get_fail_write(getting, r) : CMD_DONE;
}

static int get_one(const struct getting *getting, struct dlc_client *client)
{
  cli_cleanup_(tensor_deletep) DLManagedTensorVersioned *managed = NULL;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;
  struct dlc_error error = {0};
  int r;

  options.version = getting->version;
  r = dlc_get(client, getting->name, &options, &managed, &error);
  if (r == -DLC_E_NOT_FOUND && cmd_is_prefix(client, getting->name))
    return cmd_fail(getting->context,
                    "'%s' is a prefix of names; write all of them to a .safetensors file",
                    getting->name);
  if (r < 0)
    return cmd_fail_library(getting->context, getting->name, &error);
  if (getting->type == FILE_TYPE_NPY && !dtype_to_npy(sink_dtype(&managed->dl_tensor)))
    return refuse_npy(getting, &managed->dl_tensor);
  return write_tensor(getting, managed);
}

int cmd_get(struct cmd_context *context, int argc, char **argv)
{
  cmd_auto_client struct dlc_client *client = NULL;
  struct getting getting = {.context = context};
  int r;

  if (parse(&getting, argc, argv) < 0)
    return context->exit_code;
  getting.type = file_type_of(getting.path, getting.type);
  r = cmd_connect(context, &client);
  if (r != CMD_DONE)
    return r;
  return getting.type == FILE_TYPE_SAFETENSORS ? get_safetensors(&getting, client)
                                               : get_one(&getting, client);
}
