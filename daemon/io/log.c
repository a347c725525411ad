#include "io/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_GATE_US (UINT64_C(60) * 1000 * 1000)

static enum log_level log_limit = LOG_LEVEL_INFO;
static bool log_to_journal;

/* systemd says which stream is the journal's as "device:inode". */
static bool stderr_is_journal(void)
{
  const char *stream = getenv("JOURNAL_STREAM");
  uint64_t device, inode;
  struct stat st;

  if (!stream || sscanf(stream, "%" SCNu64 ":%" SCNu64, &device, &inode) != 2)
    return false;
  return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_setup(enum log_level level, enum log_format format)
{
  log_limit = level;
  log_to_journal =
      format == LOG_FORMAT_JOURNAL || (format == LOG_FORMAT_AUTO && stderr_is_journal());
}

static const char *level_name(enum log_level level)
{
  switch (level) {
  case LOG_LEVEL_ERROR:
    return "error";
  case LOG_LEVEL_WARNING:
    return "warning";
  case LOG_LEVEL_INFO:
    return "info";
  case LOG_LEVEL_DEBUG:
    return "debug";
  }
  return "?";
}

/* One byte is kept for the newline. */
__attribute__((format(printf, 2, 3))) static void append(struct log_line *line, const char *format,
                                                         ...)
{
  size_t room = sizeof(line->text) - line->length - 1;
  va_list arguments;
  int n;

  va_start(arguments, format);
  n = vsnprintf(line->text + line->length, room, format, arguments);
  va_end(arguments);
  if (n > 0)
    line->length += (size_t)n < room ? (size_t)n : room - 1;
}

void log_begin(struct log_line *line, enum log_level level, const char *event)
{
  line->wanted = level <= log_limit;
  line->length = 0;
  if (!line->wanted)
    return;
  if (log_to_journal)
    append(line, "<%d>%s", (int)level, event);
  else
    append(line, "dlpackd: %s: %s", level_name(level), event);
}

void log_text(struct log_line *line, const char *key, const char *value)
{
  if (!line->wanted)
    return;
  append(line, " %s=\"", key);
  for (const char *c = value ? value : ""; *c; c++) {
    if (*c >= ' ' && *c <= '~' && *c != '"' && *c != '\\')
      append(line, "%c", *c);
    else
      append(line, "\\x%02x", (unsigned char)*c);
  }
  append(line, "\"");
}

void log_unsigned(struct log_line *line, const char *key, uint64_t value)
{
  if (line->wanted)
    append(line, " %s=%" PRIu64, key, value);
}

void log_end(struct log_line *line)
{
  if (!line->wanted)
    return;
  line->text[line->length++] = '\n';
  /* Nobody is left to tell if this fails. */
  if (write(STDERR_FILENO, line->text, line->length) < 0)
    return;
}

void log_event(enum log_level level, const char *event)
{
  struct log_line line;

  log_begin(&line, level, event);
  log_end(&line);
}

bool log_gate_open(struct log_gate *gate, uint32_t uid, uint32_t reason, uint64_t now_us,
                   uint64_t *ret_suppressed)
{
  size_t oldest = 0;

  for (size_t i = 0; i < LOG_GATE_SIZE; i++) {
    if (gate->entries[i].used && gate->entries[i].uid == uid && gate->entries[i].reason == reason) {
      if (now_us - gate->entries[i].since_us < LOG_GATE_US) {
        gate->entries[i].suppressed++;
        return false;
      }
      *ret_suppressed = gate->entries[i].suppressed;
      gate->entries[i].since_us = now_us;
      gate->entries[i].suppressed = 0;
      return true;
    }
    if (!gate->entries[i].used || gate->entries[i].since_us < gate->entries[oldest].since_us)
      oldest = i;
  }
  gate->entries[oldest].used = true;
  gate->entries[oldest].uid = uid;
  gate->entries[oldest].reason = reason;
  gate->entries[oldest].since_us = now_us;
  gate->entries[oldest].suppressed = 0;
  *ret_suppressed = 0;
  return true;
}
