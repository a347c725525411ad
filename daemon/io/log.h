#ifndef DLPACKD_IO_LOG_H
#define DLPACKD_IO_LOG_H

/*
 * Log lines: what happened, then key=value pairs, one line to stderr.
 *
 *   struct log_line line;
 *   log_begin(&line, LOG_LEVEL_WARNING, "connection ended");
 *   log_unsigned(&line, "uid", uid);
 *   log_text(&line, "client", name_from_peer);
 *   log_end(&line);
 *
 * Text is quoted and everything but printable ASCII escaped: peers choose some of
 * it, and a terminal or a parser is at the other end. A line that grows too long is
 * cut. At run time only misbehaving clients cause lines above "debug", and each
 * of them once per reason and minute (log_gate).
 *
 * Level and format are of the process. One thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level {
  LOG_LEVEL_ERROR = 3, /* as syslog numbers them */
  LOG_LEVEL_WARNING = 4,
  LOG_LEVEL_INFO = 6,
  LOG_LEVEL_DEBUG = 7,
};

enum log_format {
  LOG_FORMAT_AUTO, /* journal if stderr is its stream, else text */
  LOG_FORMAT_TEXT,
  LOG_FORMAT_JOURNAL,
};

void log_setup(enum log_level level, enum log_format format);

struct log_line {
  bool wanted;
  size_t length;
  char text[1024];
};

/* `event` is ours, never a peer's. */
void log_begin(struct log_line *line, enum log_level level, const char *event);
void log_text(struct log_line *line, const char *key, const char *value);
void log_unsigned(struct log_line *line, const char *key, uint64_t value);
void log_end(struct log_line *line);

/* The whole line, for those that need no more. */
void log_event(enum log_level level, const char *event);

/* Which (uid, reason) pairs spoke lately. {0} is none. Bounded: a peer that brings
 * many uids only makes old ones forgotten. */
#define LOG_GATE_SIZE 64

struct log_gate {
  struct {
    bool used;
    uint32_t uid;
    uint32_t reason;
    uint64_t since_us;
    uint64_t suppressed;
  } entries[LOG_GATE_SIZE];
};

/* May this be said now? *ret_suppressed is how often it was not, since the last time. */
bool log_gate_open(struct log_gate *gate, uint32_t uid, uint32_t reason, uint64_t now_us,
                   uint64_t *ret_suppressed);

#endif
