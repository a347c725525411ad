#include "client/bells.h"

_Static_assert(DLP_LEASE_CELLS % (64 * 64) == 0, "the words of the set are full ones");

static uint64_t bit(uint32_t index)
{
  return UINT64_C(1) << (index % 64);
}

void dlc__bells_ring(struct dlc__bells *bells, uint32_t cell)
{
  bells->words[cell / 64] |= bit(cell);
  bells->summary[cell / 64 / 64] |= bit(cell / 64);
}

static size_t peek_word(const struct dlc__bells *bells, uint32_t word, uint32_t *cells, size_t max)
{
  size_t n = 0;

  for (uint64_t left = bells->words[word]; left && n < max; left &= left - 1)
    cells[n++] = word * 64 + (uint32_t)__builtin_ctzll(left);
  return n;
}

size_t dlc__bells_peek(const struct dlc__bells *bells, uint32_t *cells, size_t max)
{
  size_t n = 0;

  for (uint32_t i = 0; i < DLC__BELL_SUMMARY; i++) {
    for (uint64_t left = bells->summary[i]; left && n < max; left &= left - 1)
      n += peek_word(bells, i * 64 + (uint32_t)__builtin_ctzll(left), cells + n, max - n);
  }
  return n;
}

void dlc__bells_told(struct dlc__bells *bells, const uint32_t *cells, size_t n_cells)
{
  for (size_t i = 0; i < n_cells; i++) {
    uint32_t word = cells[i] / 64;

    bells->words[word] &= ~bit(cells[i]);
    if (bells->words[word] == 0)
      bells->summary[word / 64] &= ~bit(word);
  }
}
