/*
 * The public structs as programs that were compiled against this release have them, on 64-bit
 * machines. What is here never changes; a struct that begins with struct_size may grow at its end,
 * and then a line for the new field is added and the size here is the new one.
 */
#include <dlclient.h>
#include <stddef.h>

#define SIZE(name, bytes) _Static_assert(sizeof(struct name) == (bytes), "size of " #name)
#define FIELD(name, field, offset) \
  _Static_assert(offsetof(struct name, field) == (offset), "offset of " #name "." #field)

SIZE(dlc_error, 504);
FIELD(dlc_error, code, 0);
FIELD(dlc_error, os_errno, 4);
FIELD(dlc_error, message, 8);

SIZE(dlc_connect_options, 32);
FIELD(dlc_connect_options, struct_size, 0);
FIELD(dlc_connect_options, client_name, 8);
FIELD(dlc_connect_options, name_space, 16);
FIELD(dlc_connect_options, call_timeout_ms, 24);
FIELD(dlc_connect_options, flags, 28);

SIZE(dlc_daemon_info, 72);
FIELD(dlc_daemon_info, daemon_id, 0);
FIELD(dlc_daemon_info, boot_id, 16);
FIELD(dlc_daemon_info, host, 24);
FIELD(dlc_daemon_info, daemon_version, 32);
FIELD(dlc_daemon_info, socket_path, 40);
FIELD(dlc_daemon_info, protocol_major, 48);
FIELD(dlc_daemon_info, protocol_minor, 52);
FIELD(dlc_daemon_info, session, 56);
FIELD(dlc_daemon_info, uid, 64);

SIZE(dlc_view, 48);
FIELD(dlc_view, data, 0);
FIELD(dlc_view, device_type, 8);
FIELD(dlc_view, device_id, 12);
FIELD(dlc_view, ndim, 16);
FIELD(dlc_view, dtype_code, 20);
FIELD(dlc_view, dtype_bits, 21);
FIELD(dlc_view, dtype_lanes, 22);
FIELD(dlc_view, shape, 24);
FIELD(dlc_view, strides, 32);
FIELD(dlc_view, byte_offset, 40);

SIZE(dlc_attribute, 16);
FIELD(dlc_attribute, key, 0);
FIELD(dlc_attribute, value, 8);

SIZE(dlc_publish_options, 64);
FIELD(dlc_publish_options, struct_size, 0);
FIELD(dlc_publish_options, lifetime, 8);
FIELD(dlc_publish_options, backend, 12);
FIELD(dlc_publish_options, flags, 16);
FIELD(dlc_publish_options, mode, 20);
FIELD(dlc_publish_options, gid, 24);
FIELD(dlc_publish_options, has_gid, 28);
FIELD(dlc_publish_options, ttl_ms, 32);
FIELD(dlc_publish_options, expected, 40);
FIELD(dlc_publish_options, n_attributes, 48);
FIELD(dlc_publish_options, attributes, 56);

SIZE(dlc_get_options, 40);
FIELD(dlc_get_options, struct_size, 0);
FIELD(dlc_get_options, access, 8);
FIELD(dlc_get_options, flags, 12);
FIELD(dlc_get_options, version, 16);
FIELD(dlc_get_options, newer_than, 24);
FIELD(dlc_get_options, timeout_ms, 32);
FIELD(dlc_get_options, reserved, 36);

SIZE(dlc_slot, 1472);
FIELD(dlc_slot, opaque, 0);

SIZE(dlc_info, 152);
FIELD(dlc_info, struct_size, 0);
FIELD(dlc_info, name, 8);
FIELD(dlc_info, version, 16);
FIELD(dlc_info, dtype_code, 24);
FIELD(dlc_info, dtype_bits, 25);
FIELD(dlc_info, dtype_lanes, 26);
FIELD(dlc_info, flags, 28);
FIELD(dlc_info, ndim, 32);
FIELD(dlc_info, device_type, 36);
FIELD(dlc_info, shape, 40);
FIELD(dlc_info, strides, 48);
FIELD(dlc_info, nbytes, 56);
FIELD(dlc_info, lifetime, 64);
FIELD(dlc_info, backend, 68);
FIELD(dlc_info, ttl_ms, 72);
FIELD(dlc_info, owner_uid, 80);
FIELD(dlc_info, gid, 84);
FIELD(dlc_info, mode, 88);
FIELD(dlc_info, publisher_uid, 92);
FIELD(dlc_info, publisher_pid, 96);
FIELD(dlc_info, readers, 100);
FIELD(dlc_info, created_us, 104);
FIELD(dlc_info, age_ms, 112);
FIELD(dlc_info, segment, 120);
FIELD(dlc_info, offset, 128);
FIELD(dlc_info, n_attributes, 136);
FIELD(dlc_info, attributes, 144);

SIZE(dlc_list_options, 24);
FIELD(dlc_list_options, struct_size, 0);
FIELD(dlc_list_options, pattern, 8);
FIELD(dlc_list_options, flags, 16);
FIELD(dlc_list_options, reserved, 20);

SIZE(dlc_event, 40);
FIELD(dlc_event, struct_size, 0);
FIELD(dlc_event, kind, 8);
FIELD(dlc_event, reserved, 12);
FIELD(dlc_event, name, 16);
FIELD(dlc_event, version, 24);
FIELD(dlc_event, change, 32);

/* The numbers of the codes never change either, and none is left out. */
#define X(number, name, text) FIRST_##name = number,
enum first { DLC_ERROR_MAP(X) };
#undef X
_Static_assert(FIRST_INVALID == 1 && FIRST_SYSTEM == 3 && FIRST_NOT_FOUND == 4, "codes");
_Static_assert(FIRST_TIMEOUT == 10 && FIRST_PROTOCOL == 15 && FIRST_BUSY == 21, "codes");

int main(void)
{
  return 0;
}
