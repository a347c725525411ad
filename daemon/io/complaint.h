#ifndef DLPACKD_IO_COMPLAINT_H
#define DLPACKD_IO_COMPLAINT_H

/*
 * Why something could not be set up, as one sentence for whoever started the
 * daemon. Filled only on failure, by the function that knows most; whoever gets it
 * prints it once. Only for start-up: what goes wrong later is a log line.
 */

#include <stdarg.h>
#include <stdio.h>

struct complaint {
  char text[512];
};

/* Writes the sentence and gives `result` back, so that it can be returned at once. */
__attribute__((format(printf, 3, 4))) static inline int
complain(struct complaint *reterr, int result, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  (void)vsnprintf(reterr->text, sizeof(reterr->text), format, arguments);
  va_end(arguments);
  return result;
}

#endif
