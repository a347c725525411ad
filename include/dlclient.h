#ifndef DLCLIENT_H
#define DLCLIENT_H

/**
 * @file
 * libdlclient: tensors shared between the processes of one host.
 *
 * A producer publishes tensors under names; any other process gets them as
 * zero-copy DLPack tensors, and holds them for as long as it likes. The daemon,
 * dlpackd, keeps the names and the memory; nothing is lost or leaked when either
 * side is killed.
 *
 * DLPack's structs are only named here, so that this header goes with every copy
 * of dlpack.h that is about. Include your dlpack.h, or dlclient_dlpack.h, to see
 * inside them.
 *
 * Every function is thread-safe unless it says otherwise. None may be called
 * from a signal handler. Names are UTF-8; `~user/name` or `~uid/name` is a name
 * of somebody else.
 */

#include "dlclient/client.h"
#include "dlclient/error.h"
#include "dlclient/export.h"
#include "dlclient/get.h"
#include "dlclient/info.h"
#include "dlclient/publish.h"
#include "dlclient/version.h"
#include "dlclient/watch.h"

#endif
