/*
 * Publish a scan of a head, read from a NIfTI-1 file, for every process of this host.
 *
 *   gzip -dc scan.nii.gz | publish_volume NAME
 *   publish_volume NAME scan.nii
 *
 * The file's bytes are read straight into shared memory: the tensor that others get
 * is the only copy. It stays for as long as this program runs: until a signal ends
 * it, however rudely.
 */
#include <dlclient.h>
#include <dlclient_dlpack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The part of a NIfTI-1 header that is used here; nifti1.h of the NIfTI working group has all of
 * it. */
enum {
  HEADER_SIZE = 348,
  AT_DIM = 40,      /* int16[8]: how many axes, then their lengths, fastest first */
  AT_DATATYPE = 70, /* int16 */
  AT_OFFSET = 108,  /* float: where the voxels begin */
  AT_AFFINE = 280,  /* float[3][4]: from voxel numbers to millimetres */
  TYPE_UINT8 = 2,
};

struct volume {
  int64_t shape[3]; /* z, y, x: the file's x runs fastest */
  int64_t offset;
  float affine[3][4];
};

static _Noreturn void fail(const char *what, const struct dlc_error *error)
{
  fprintf(stderr, "publish_volume: %s%s%s\n", what, error ? ": " : "", error ? error->message : "");
  exit(1);
}

static void read_header(FILE *file, struct volume *volume)
{
  unsigned char header[HEADER_SIZE];
  int16_t dim[8], datatype;
  int32_t size;
  float offset;

  if (fread(header, sizeof(header), 1, file) != 1)
    fail("the file is too short for a NIfTI-1 header", NULL);
  memcpy(&size, header, sizeof(size));
  memcpy(dim, header + AT_DIM, sizeof(dim));
  memcpy(&datatype, header + AT_DATATYPE, sizeof(datatype));
  memcpy(&offset, header + AT_OFFSET, sizeof(offset));
  memcpy(volume->affine, header + AT_AFFINE, sizeof(volume->affine));
  if (size != HEADER_SIZE || dim[0] != 3 || datatype != TYPE_UINT8)
    fail("only three-dimensional NIfTI-1 volumes of uint8 in this machine's byte order", NULL);
  if (dim[1] < 1 || dim[2] < 1 || dim[3] < 1 || !(offset >= HEADER_SIZE && offset < 1e6f))
    fail("the NIfTI-1 header makes no sense", NULL);
  volume->shape[0] = dim[3];
  volume->shape[1] = dim[2];
  volume->shape[2] = dim[1];
  volume->offset = (int64_t)offset;
}

static void read_voxels(FILE *file, const struct volume *volume, void *voxels)
{
  size_t n_voxels = (size_t)(volume->shape[0] * volume->shape[1] * volume->shape[2]);

  for (int64_t at = HEADER_SIZE; at < volume->offset; at++)
    (void)fgetc(file);
  if (fread(voxels, 1, n_voxels, file) != n_voxels)
    fail("the file ends before the last voxel", NULL);
}

static struct DLManagedTensorVersioned *load(struct dlc_client *client, FILE *file,
                                             struct volume *volume)
{
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  DLTensor wanted = {.device = {kDLCPU, 0}, .ndim = 3, .dtype = {kDLUInt, 8, 1}};

  read_header(file, volume);
  wanted.shape = volume->shape;
  if (dlc_alloc(client, dlc_view(&wanted), NULL, &tensor, &error) < 0)
    fail("no shared memory", &error);
  read_voxels(file, volume, tensor->dl_tensor.data);
  return tensor;
}

/* What a reader must know besides the numbers travels with them, as attributes. */
static void publish(struct dlc_client *client, const char *name,
                    struct DLManagedTensorVersioned *tensor, const struct volume *volume)
{
  char affine[256];
  uint64_t version;
  struct dlc_error error;
  struct dlc_publish_options options = DLC_PUBLISH_OPTIONS_INIT;
  const struct dlc_attribute attributes[] = {{"affine_mm", affine}, {"axes", "z y x"}};
  const float(*m)[4] = volume->affine;

  snprintf(affine, sizeof(affine), "%g %g %g %g  %g %g %g %g  %g %g %g %g", (double)m[0][0],
           (double)m[0][1], (double)m[0][2], (double)m[0][3], (double)m[1][0], (double)m[1][1],
           (double)m[1][2], (double)m[1][3], (double)m[2][0], (double)m[2][1], (double)m[2][2],
           (double)m[2][3]);
  options.n_attributes = sizeof(attributes) / sizeof(attributes[0]);
  options.attributes = attributes;
  if (dlc_publish(client, name, tensor, &options, &version, &error) < 0)
    fail("not published", &error);
  printf("process %d published '%s': %lld x %lld x %lld voxels\n", (int)getpid(), name,
         (long long)volume->shape[0], (long long)volume->shape[1], (long long)volume->shape[2]);
}

int main(int argc, char **argv)
{
  struct volume volume;
  struct dlc_client *client;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  FILE *file = stdin;

  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: publish_volume NAME [FILE.nii]\n");
    return 2;
  }
  if (argc == 3 && !(file = fopen(argv[2], "rb")))
    fail("cannot open the file", NULL);
  if (dlc_connect(NULL, NULL, &client, &error) < 0)
    fail("no connection", &error);
  tensor = load(client, file, &volume);
  publish(client, argv[1], tensor, &volume);
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}
