/*
 * Get a scan that publish_volume published, without a copy, and compute something of it.
 *
 *   read_volume size NAME     how large the brain is, and of what it consists
 *   read_volume centre NAME   where its centre of mass lies
 *   read_volume write NAME    try to change it: the kernel stops that
 *
 * After its answer, "size" and "centre" hold the tensor until a signal comes, so that
 * others can look at their memory.
 */
#include <dlclient.h>
#include <dlclient_dlpack.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct volume {
  const uint8_t *voxels;
  const int64_t *shape; /* z, y, x */
  double affine[3][4];  /* from voxel numbers x, y, z to millimetres */
};

static _Noreturn void fail(const char *what, const char *why)
{
  fprintf(stderr, "read_volume: %s: %s\n", what, why);
  exit(1);
}

static void read_affine(struct volume *volume, const char *text)
{
  char *end;

  for (int i = 0; i < 12; i++, text = end) {
    volume->affine[i / 4][i % 4] = strtod(text, &end);
    if (end == text)
      fail("attribute 'affine_mm'", "not twelve numbers");
  }
}

/* Any process can publish any tensor under a name: what is expected is checked. */
static void look(const struct DLManagedTensorVersioned *tensor, struct volume *volume)
{
  const struct dlc_info *info = dlc_tensor_info(tensor);
  const char *affine = info ? dlc_info_attribute(info, "affine_mm") : NULL;
  const DLTensor *t = &tensor->dl_tensor;

  if (t->ndim != 3 || t->dtype.code != kDLUInt || t->dtype.bits != 8 || t->dtype.lanes != 1 ||
      !t->data || !affine)
    fail("not a scan", "want three axes of uint8 and the attribute 'affine_mm'");
  if (t->strides[2] != 1 || t->strides[1] != t->shape[2] ||
      t->strides[0] != t->shape[1] * t->shape[2])
    fail("not a scan", "want it compact");
  volume->voxels = t->data;
  volume->shape = t->shape;
  read_affine(volume, affine);
}

static int brightest(const uint64_t *histogram, int from, int to)
{
  int best = from;

  for (int i = from; i < to; i++)
    if (histogram[i] > histogram[best])
      best = i;
  return best;
}

static int darkest_between(const uint64_t *histogram, int from, int to)
{
  int best = from;

  for (int i = from; i < to; i++)
    if (histogram[i] < histogram[best])
      best = i;
  return best;
}

/* In this kind of scan white matter is brighter than grey: two hills, and the valley parts them. */
static void tell_size(const struct volume *volume)
{
  uint64_t histogram[256] = {0}, brain = 0, white = 0;
  int64_t n_voxels = volume->shape[0] * volume->shape[1] * volume->shape[2];
  double ml = fabs(volume->affine[0][0] * volume->affine[1][1] * volume->affine[2][2]) / 1000;
  int white_hill, grey_hill, valley;

  for (int64_t i = 0; i < n_voxels; i++)
    histogram[volume->voxels[i]]++;
  white_hill = brightest(histogram, 1, 256);
  grey_hill = brightest(histogram, 1, white_hill * 4 / 5);
  valley = darkest_between(histogram, grey_hill, white_hill);
  for (int i = 1; i < 256; i++) {
    brain += histogram[i];
    white += i > valley ? histogram[i] : 0;
  }
  printf("the brain fills %.0f ml; grey matter is brightest at %d and white at %d; "
         "by that, %.0f %% is white\n",
         (double)brain * ml, grey_hill, white_hill, 100.0 * (double)white / (double)brain);
}

static void tell_centre(const struct volume *volume)
{
  double mass = 0, sum[3] = {0, 0, 0}, mm[3];
  const uint8_t *voxel = volume->voxels;

  for (int64_t z = 0; z < volume->shape[0]; z++) {
    for (int64_t y = 0; y < volume->shape[1]; y++) {
      for (int64_t x = 0; x < volume->shape[2]; x++, voxel++) {
        mass += *voxel;
        sum[0] += (double)(x * *voxel);
        sum[1] += (double)(y * *voxel);
        sum[2] += (double)(z * *voxel);
      }
    }
  }
  for (int i = 0; i < 3; i++)
    mm[i] = volume->affine[i][0] * sum[0] / mass + volume->affine[i][1] * sum[1] / mass +
            volume->affine[i][2] * sum[2] / mass + volume->affine[i][3];
  printf("centre of mass %.1f mm %s of the plane between the halves, "
         "%.0f mm behind and %.0f mm above the origin\n",
         fabs(mm[0]), mm[0] < 0 ? "left" : "right", -mm[1], mm[2]);
}

/* Everything a process could try, each in a child that may die of it. */
static void tell_write(const struct DLManagedTensorVersioned *tensor)
{
  volatile uint8_t *voxels = tensor->dl_tensor.data;
  int status;
  pid_t child = fork();

  if (child == 0) {
    voxels[0] = 255;
    _exit(0);
  }
  if (child < 0 || waitpid(child, &status, 0) != child)
    fail("fork", strerror(errno));
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
    fail("write", "went through");
  printf("a plain write: the kernel ended that process (%s)\n", strsignal(WTERMSIG(status)));
  if (mprotect(tensor->dl_tensor.data, 4096, PROT_READ | PROT_WRITE) == 0)
    fail("mprotect", "went through");
  printf("asking for a writable mapping: refused (%s)\n", strerror(errno));
}

static struct DLManagedTensorVersioned *get(const char *name)
{
  struct dlc_client *client;
  struct DLManagedTensorVersioned *tensor;
  struct dlc_error error;
  struct dlc_get_options options = DLC_GET_OPTIONS_INIT;

  options.timeout_ms = 10000; /* the publisher may still be on its way */
  if (dlc_connect(NULL, NULL, &client, &error) < 0)
    fail("no connection", error.message);
  if (dlc_get(client, name, &options, &tensor, &error) < 0)
    fail(name, error.message);
  dlc_close(client); /* the tensor needs it no more */
  return tensor;
}

int main(int argc, char **argv)
{
  struct DLManagedTensorVersioned *tensor;
  struct volume volume;

  if (argc != 3 ||
      (strcmp(argv[1], "size") && strcmp(argv[1], "centre") && strcmp(argv[1], "write"))) {
    fprintf(stderr, "usage: read_volume size|centre|write NAME\n");
    return 2;
  }
  tensor = get(argv[2]);
  look(tensor, &volume);
  if (strcmp(argv[1], "write") == 0) {
    tell_write(tensor);
    tensor->deleter(tensor);
    return 0;
  }
  printf("process %d: ", (int)getpid());
  if (strcmp(argv[1], "size") == 0)
    tell_size(&volume);
  else
    tell_centre(&volume);
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}
