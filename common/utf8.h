#ifndef DLPACKD_COMMON_UTF8_H
#define DLPACKD_COMMON_UTF8_H

/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one code point. Return: how many bytes it took, 0 if they are not
 * valid or `size` is 0. */
size_t dlp_utf8_decode(const char *bytes, size_t size, uint32_t *ret);

bool dlp_utf8_valid(const char *bytes, size_t size);

/* True for what must not be in a name: Unicode categories Cc, Cf, Zl, Zp. */
bool dlp_unicode_is_control(uint32_t code_point);

#endif
