#include "text.h"

#include <stdio.h>
#include <string.h>

void text_deinit(struct text *text)
{
  free(text->data);
  *text = (struct text){0};
}

void text_clear(struct text *text)
{
  text->size = 0;
  if (text->data)
    text->data[0] = '\0';
}

/* Room for `more` bytes and a NUL. */
static bool text_reserve(struct text *text, size_t more)
{
  size_t capacity = text->capacity ? text->capacity : 128;
  char *data;

  if (text->failed)
    return false;
  if (more < text->capacity - text->size)
    return true;
  while (capacity - text->size <= more)
    if (__builtin_mul_overflow(capacity, 2, &capacity))
      goto fail;
  data = realloc(text->data, capacity);
  if (!data)
    goto fail;
  text->data = data;
  text->capacity = capacity;
  return true;

fail:
  text->failed = true;
  return false;
}

void text_append_bytes(struct text *text, const void *bytes, size_t size)
{
  if (!text_reserve(text, size))
    return;
  if (size)
    memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->data[text->size] = '\0';
}

void text_append(struct text *text, const char *string)
{
  text_append_bytes(text, string, strlen(string));
}

void text_append_spaces(struct text *text, size_t count)
{
  if (!text_reserve(text, count))
    return;
  memset(text->data + text->size, ' ', count);
  text->size += count;
  text->data[text->size] = '\0';
}

void text_vprintf(struct text *text, const char *format, va_list arguments)
{
  va_list again;
  int length;

  va_copy(again, arguments);
  length = vsnprintf(NULL, 0, format, arguments);
  if (length < 0 || !text_reserve(text, (size_t)length)) {
    text->failed = true;
  } else {
    (void)vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
    text->size += (size_t)length;
  }
  va_end(again);
}

void text_printf(struct text *text, const char *format, ...)
{
  va_list arguments;

  va_start(arguments, format);
  text_vprintf(text, format, arguments);
  va_end(arguments);
}

const char *text_string(const struct text *text)
{
  return text->data ? text->data : "";
}

char *text_take(struct text *text)
{
  char *data = NULL;

  if (!text->failed)
    data = text->data ? text->data : strdup("");
  else
    free(text->data);
  *text = (struct text){0};
  return data;
}
