#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/error.h"

#define X(number, name, text)                                 \
  _Static_assert((int)DLC_E_##name == (int)DLP_STATUS_##name, \
                 "a code of the library is the status of the wire");
DLC_ERROR_MAP(X)
#undef X

/* And none of the wire's is without a code. */
enum {
#define X(number, name) ERROR_WIRE_##name,
  DLP_STATUS_MAP(X)
#undef X
      ERROR_N_WIRE,
};

struct error_entry {
  const char *name;
  const char *text;
};

static const struct error_entry error_table[] = {[DLC_OK] = {"DLC_OK", "success"},
#define X(number, name, text) [number] = {"DLC_E_" #name, text},
                                                 DLC_ERROR_MAP(X)
#undef X
};

#define ERROR_N_ENTRIES ((int)(sizeof(error_table) / sizeof(error_table[0])))
_Static_assert(ERROR_N_ENTRIES == ERROR_N_WIRE + 1, "the two lists are of one length");

static const struct error_entry *error_find(int code)
{
  /* Not -code: INT_MIN has no positive. */
  if (code <= -ERROR_N_ENTRIES || code >= ERROR_N_ENTRIES)
    return NULL;
  return &error_table[code < 0 ? -code : code];
}

const char *dlc_error_name(int code)
{
  const struct error_entry *entry = error_find(code);

  return entry ? entry->name : "DLC_E_UNKNOWN";
}

const char *dlc_error_text(int code)
{
  const struct error_entry *entry = error_find(code);

  return entry ? entry->text : "not a code of this library";
}

int dlc__error_set(struct dlc_error *reterr, int code, int os_errno, const char *format, ...)
{
  va_list arguments;

  if (!reterr)
    return -code;
  reterr->code = code;
  reterr->os_errno = os_errno;
  va_start(arguments, format);
  (void)vsnprintf(reterr->message, sizeof(reterr->message), format, arguments);
  va_end(arguments);
  return -code;
}

int dlc__error_no_memory(struct dlc_error *reterr)
{
  return dlc__error_set(reterr, DLC_E_NO_MEMORY, ENOMEM, "this process is out of memory");
}

int dlc__error_system(struct dlc_error *reterr, int negative_errno, const char *what)
{
  char text[128];

  if (negative_errno == -ENOMEM)
    return dlc__error_set(reterr, DLC_E_NO_MEMORY, ENOMEM, "cannot %s: out of memory", what);
  return dlc__error_set(reterr, DLC_E_SYSTEM, -negative_errno, "cannot %s: %s", what,
                        strerror_r(-negative_errno, text, sizeof(text)));
}

int dlc__error_from_reply(struct dlc_error *reterr, const struct msg_reply *reply)
{
  int code = (int)reply->status;

  /* A later daemon may know more codes than we do. */
  if (code <= 0 || code >= ERROR_N_ENTRIES)
    return dlc__error_set(reterr, DLC_E_PROTOCOL, 0, "the daemon answered with status %d: %s", code,
                          reply->message ? reply->message : "(no message)");
  return dlc__error_set(reterr, code, 0, "%s",
                        reply->message ? reply->message : error_table[code].text);
}
