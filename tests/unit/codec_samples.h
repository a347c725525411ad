#ifndef DLPACKD_TESTS_UNIT_CODEC_SAMPLES_H
#define DLPACKD_TESTS_UNIT_CODEC_SAMPLES_H

/* One message of each type with every field set to something of its own, and a
 * comparison of all fields. */

#include "proto/message.h"

extern const struct msg_request codec_sample_requests[];
extern const size_t codec_n_sample_requests;
extern const struct msg_reply codec_sample_replies[];
extern const size_t codec_n_sample_replies;

/* Fail the running test where the two differ. */
void codec_assert_same_request(const struct msg_request *a, const struct msg_request *b);
void codec_assert_same_reply(const struct msg_reply *a, const struct msg_reply *b);

#endif
