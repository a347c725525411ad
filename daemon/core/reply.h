#ifndef DLPACKD_CORE_REPLY_H
#define DLPACKD_CORE_REPLY_H

/*
 * Answers, and the one place where the core's conditions become statuses.
 *
 * A sentence names the thing, the limit and the remedy; what came from a peer
 * (names) is escaped in it. About somebody else's name it says only "not found or
 * not permitted".
 *
 * Pure. One owner thread.
 */

#include "core/broker_private.h"

/* Bytes that answers of several packets fill a packet up to. */
#define REPLY_FILL_MAX (DLP_PACKET_MAX - 4096)

void reply_send(struct connection *connection, struct msg_reply *reply,
                const struct attachment *attachments, size_t n_attachments);
void reply_ok(struct connection *connection, uint64_t id);
void reply_error(struct connection *connection, uint64_t id, enum dlp_status status,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

void reply_no_memory(struct connection *connection, uint64_t id);
void reply_quota(struct connection *connection, uint64_t id, const struct quota_refusal *refusal);
void reply_pool(struct connection *connection, uint64_t id, int condition,
                const struct quota_refusal *refusal);
void reply_name(struct connection *connection, uint64_t id, const char *path, int condition);
void reply_not_found(struct connection *connection, uint64_t id, const struct entry_key *key);
/* Is it one of enum msg_access? Answers the refusal itself. */
bool reply_check_access(struct connection *connection, uint64_t id, uint32_t access);
/* An effect failed with this negative errno; `what` as in "making a segment". */
void reply_errno(struct connection *connection, uint64_t id, const char *what, int error);

/* Everything points into the tensor. */
void reply_fill_tensor(const struct broker *broker, struct msg_tensor *ret,
                       const struct tensor *tensor);
/* Upper bound of the bytes it takes in a packet. */
size_t reply_tensor_size(const struct tensor *tensor);

/* "model/w" of one's own, "~1000/model/w" of another, escaped. */
#define REPLY_NAME_SIZE (4 * DLP_NAME_MAX + 16)
const char *reply_name_text(const struct connection *connection, const struct entry_key *key,
                            char buffer[REPLY_NAME_SIZE]);

#endif
