#ifndef DLCLIENT_EXPORT_H
#define DLCLIENT_EXPORT_H

/* What libdlclient.so exports, and results that must not be ignored. */
#if defined(__GNUC__)
#define DLC_PUBLIC __attribute__((visibility("default")))
#define DLC_CHECK __attribute__((warn_unused_result))
#else
#define DLC_PUBLIC
#define DLC_CHECK
#endif

#ifdef __cplusplus
#define DLC_BEGIN_DECLS extern "C" {
#define DLC_END_DECLS }
#else
#define DLC_BEGIN_DECLS
#define DLC_END_DECLS
#endif

#endif
