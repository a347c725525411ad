#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd.h"
#include "number.h"
#include "tensor_view.h"

enum {
  OPTION_RETIRED = CMD_OPTION_OWN,
  WIDTH_DEFAULT = 80,
  WIDTH_MAX = 10000,
};

struct listing {
  struct dlc_list_options options;
  bool is_long;
  bool failed;
  struct render_table table;
  json_t *json; /* instead of the table */
};

static int add_tensor(void *context, const struct dlc_info *info)
{
  struct listing *listing = context;

  if (!listing->json)
    tensor_view_row(&listing->table, info, listing->is_long);
  else if (json_array_append_new(listing->json, tensor_view_json(info)) < 0)
    listing->failed = true;
  return listing->failed || listing->table.failed;
}

/* Columns to fit into: nothing is cut that goes to a file, or that asks for all. */
static unsigned output_width(const struct listing *listing)
{
  const char *columns = getenv("COLUMNS");
  struct winsize size;
  uint64_t width;

  if (listing->is_long || !isatty(STDOUT_FILENO))
    return RENDER_WIDTH_ANY;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  if (columns && number_parse_u64(columns, 10, &width) == 0 && width > 0 && width < WIDTH_MAX)
    return (unsigned)width;
  return WIDTH_DEFAULT;
}

static int parse(struct cmd_context *context, int argc, char **argv, struct listing *ret)
{
  static const struct option options[] = {
      {"long", no_argument, NULL, 'l'},
      {"all-users", no_argument, NULL, 'a'},
      {"retired", no_argument, NULL, OPTION_RETIRED},
      CMD_COMMON_OPTIONS,
  };
  int option;

  while ((option = cmd_option(context, argc, argv, ":la", options)) != -1) {
    switch (option) {
    case 'l':
      ret->is_long = true;
      break;
    case 'a':
      ret->options.flags |= DLC_LIST_ALL_OWNERS;
      break;
    case OPTION_RETIRED:
      ret->options.flags |= DLC_LIST_RETIRED;
      break;
    default:
      return -1;
    }
  }
  context->exit_code = cmd_check_arguments(context, argc, 0, 1);
  ret->options.pattern = argv[optind];
  return context->exit_code == CMD_DONE ? 0 : -1;
}

static int print_table(struct cmd_context *context, struct listing *listing)
{
  cli_auto_text struct text text = {0};

  render_table_text(&listing->table, output_width(listing), &text);
  return cmd_print_text(context, &text);
}

static int list(struct cmd_context *context, struct listing *listing)
{
  cmd_auto_client struct dlc_client *client = NULL;
  struct dlc_error error = {0};
  int r = cmd_connect(context, &client);

  if (r != CMD_DONE)
    return r;
  r = dlc_list(client, &listing->options, add_tensor, listing, &error);
  if (r < 0)
    return cmd_fail_library(context, listing->options.pattern, &error);
  if (r > 0)
    return cmd_fail_memory(context);
  if (listing->json)
    return cmd_print_json(context, json_incref(listing->json), JSON_INDENT(2));
  return print_table(context, listing);
}

int cmd_list(struct cmd_context *context, int argc, char **argv)
{
  struct listing listing = {.options = DLC_LIST_OPTIONS_INIT};
  int exit_code;

  if (parse(context, argc, argv, &listing) < 0)
    return context->exit_code;
  render_table_init(&listing.table, listing.is_long ? tensor_long_columns : tensor_columns,
                    listing.is_long ? tensor_n_long_columns : tensor_n_columns);
  if (context->json)
    listing.json = json_array();
  exit_code = list(context, &listing);
  json_decref(listing.json);
  render_table_deinit(&listing.table);
  return exit_code;
}
