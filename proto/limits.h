#ifndef DLPACKD_PROTO_LIMITS_H
#define DLPACKD_PROTO_LIMITS_H

/*
 * The bounds of the protocol: what one packet, one name or one tensor may be.
 *
 * Both sides hold to them: a sender because its packet would be refused, a
 * receiver because the sender may be hostile. Everything counted on the wire is
 * compared with one of these before it is used. docs/PROTOCOL.md prints them.
 */

#define DLP_PROTOCOL_MAJOR 1
#define DLP_PROTOCOL_MINOR 0

/* Bytes of one packet, and descriptors that travel with it. */
#define DLP_PACKET_MAX 65536
#define DLP_PACKET_FDS_MAX 200

/* Heap that decoding one packet may take: protobuf multiplies what it reads. */
#define DLP_DECODE_BUDGET (1024 * 1024)

/* A tensor. 64 dimensions as NumPy 2 has; see DLPack for the rest. */
#define DLP_NDIM_MAX 64
#define DLP_TENSOR_ALIGN 256

/* A name: components of 1 to 255 bytes, at most 1,023 in all. */
#define DLP_NAME_MAX 1023
#define DLP_NAME_COMPONENT_MAX 255

/* Attributes: bytes of all keys and values together. */
#define DLP_ATTRIBUTES_MAX 4096
#define DLP_GENERATION_ATTRIBUTES_MAX 32768
#define DLP_ATTRIBUTE_KEY_MAX 255

/* Hello. */
#define DLP_TOKEN_SIZE 16
#define DLP_CLIENT_NAME_MAX 63

/* Bytes of a tensor that may come within PUBLISH itself. */
#define DLP_INLINE_MAX 32768

/* Entries of one request that carries a list, before it has to be split. */
#define DLP_BATCH_MAX 256

/* Names that one GET may ask for over all its packets, and names a page of a
 * listing may visit. */
#define DLP_GET_MANY_MAX 65536
#define DLP_LIST_PAGE_MAX 256

/* Names that one DELETE by prefix takes away: a client repeats it while it gets
 * this many, so that nobody waits for a long one. */
#define DLP_DELETE_PAGE_MAX 1024

/* For timeout_ms: wait without limit. */
#define DLP_TIMEOUT_NEVER UINT32_MAX

/* Versions are microseconds; below 2^53 they survive JSON. */
#define DLP_VERSION_MAX ((UINT64_C(1) << 53) - 1)

#endif
