/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/heap_slabs.h"
#include "tests/model/heap_model.h"

unsigned model_count_in(const struct model_heap *heap, const struct model_range *slab)
{
        unsigned n = 0;

        for (unsigned i = 0; i < heap->live.n; i++)
                n += heap->live.at[i].start >= slab->start && heap->live.at[i].end <= slab->end;
        return n;
}

bool model_has_place(const struct model_heap *heap, uint64_t n_place_bytes)
{
        for (unsigned i = 0; i < heap->slabs.n; i++) {
                const struct model_range *slab = &heap->slabs.at[i];

                if (slab->n_place_bytes == n_place_bytes &&
                    model_count_in(heap, slab) < model_bytes(slab) / n_place_bytes)
                        return true;
        }
        return false;
}

/* Where, and of how many places, is the heap's choice. */
void model_meet_slab(struct model *model, struct model_heap *heap, uint64_t address)
{
        const struct heap *real = model_heap(heap);
        const struct heap_block *block = heap_block_at(model->arena, address);
        uint32_t index = heap_slab_at(real, block, address);
        struct model_range range;

        if (!index || model_find(&heap->slabs, address))
                return;
        range = (struct model_range){
                .start = heap_address_of(real, slabs_at(&real->slabs, index)->start),
                .n_place_bytes = slabs_at(&real->slabs, index)->n_units * HEAP_UNIT};
        range.end = range.start + slab_n_units(slabs_at(&real->slabs, index)) * HEAP_UNIT;
        MODEL_EXPECT(model, range.n_place_bytes <= SLAB_UNITS_MAX * HEAP_UNIT);
        model_cut_free(model, heap, range.start, range.end);
        model_insert(model, &heap->slabs, range);
        model->n_slabs++;
}

void model_end_slab(struct model *model, struct model_heap *heap, uint64_t start)
{
        uint64_t end = model_find(&heap->slabs, start)->end;

        model_erase(model, &heap->slabs, start);
        model_add_free(model, heap, start, end);
}
