// SPDX-License-Identifier: Apache-2.0
// gpumem-resources.hpp - memory resources for CUDA's C++ libraries and for RMM, and allocators for containers and Thrust
//
// The header includes none of their headers. What it has for them are templates, which a program instantiates with
// their types. gpumem-cpp(3) describes them. What cannot be allocated is thrown as in gpumem.hpp; frees are noexcept,
// and count in gpumem::failures() what they could not do.
#ifndef GPUMEM_RESOURCES_HPP
#define GPUMEM_RESOURCES_HPP

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "gpumem.hpp"

namespace gpumem {

namespace detail {

inline constexpr std::size_t alignment_max = 512;
inline constexpr std::size_t alignment_default = 256; // that of cudaMalloc

// cuda::get_property finds it by the types of its arguments.
template <class Resource, class Property> struct has_property {
        friend constexpr void get_property(const Resource &, Property) noexcept {}
};

// A thread may have no context, or that of another device. Then the device's primary context is used, as the CUDA
// runtime does.
inline int allocate_on_any_thread(gpumem_kind kind, std::size_t n_bytes, void *stream,
                                  alloc_options how, void **ret_pointer) noexcept
{
        const int result = allocate(kind, n_bytes, stream, how, ret_pointer);

        if (kind != GPUMEM_DEVICE ||
            (result != GPUMEM_E_NO_CONTEXT && result != GPUMEM_E_WRONG_STREAM))
                return result;
        how.flags |= GPUMEM_PRIMARY;
        return allocate(kind, n_bytes, stream, how, ret_pointer);
}

// The free of an allocation waits for all work of its context.
inline int wait_for_context(const alloc_options &how) noexcept
{
        void *least = nullptr;
        const int result = allocate_on_any_thread(GPUMEM_DEVICE, 1, nullptr, how, &least);

        return result ? result : gpumem_free_sync(how.client, least);
}

inline void check_alignment(std::size_t alignment)
{
        if (!alignment || (alignment & (alignment - 1)) || alignment > alignment_max)
                throw failure(GPUMEM_E_BAD_REQUEST,
                              "alignment " + std::to_string(alignment) +
                                      " (expected a power of two, 512 at most)");
}

} // namespace detail

// A resource of CUDA's cuda::mr, and so of RMM: it allocates and frees in the order of streams. The properties are those
// that it has, as CUDA calls them: device_resource<cuda::mr::device_accessible>.
// Copies are equal, and so are all resources of one kind and client: each frees what the others allocate.
template <gpumem_kind Kind, class... Properties>
class basic_resource
        : private detail::has_property<basic_resource<Kind, Properties...>, Properties>... {
public:
        basic_resource() noexcept = default;
        explicit basic_resource(const alloc_options &how) noexcept : how_(how) {}

        void *allocate(stream_ref stream, std::size_t n_bytes,
                       std::size_t alignment = detail::alignment_default)
        {
                void *pointer = nullptr;

                detail::check_alignment(alignment);
                if (n_bytes)
                        check_request(detail::allocate_on_any_thread(Kind, n_bytes, stream.get(),
                                                                     how_, &pointer),
                                      "gpumem_alloc", how_.client);
                return pointer;
        }
        void deallocate(stream_ref stream, void *pointer, std::size_t /* n_bytes */,
                        std::size_t /* alignment */ = detail::alignment_default) noexcept
        {
                if (pointer)
                        detail::free_in_stream(how_.client, pointer, stream.get());
        }
        // Any stream may use the memory at once: the call waits for all work of the context.
        void *allocate_sync(std::size_t n_bytes, std::size_t alignment = detail::alignment_default)
        {
                void *pointer = allocate(stream_ref(), n_bytes, alignment);
                const int result = pointer && Kind == GPUMEM_DEVICE ? detail::wait_for_context(how_)
                                                                    : 0;

                if (result)
                        deallocate(stream_ref(), pointer, n_bytes, alignment);
                check(result, "gpumem_free_sync");
                return pointer;
        }
        void deallocate_sync(void *pointer, std::size_t /* n_bytes */,
                             std::size_t /* alignment */ = detail::alignment_default) noexcept
        {
                if (pointer)
                        detail::free_sync(how_.client, pointer);
        }

        // The same by the names that CCCL before 3.1 has for them.
        void *allocate_async(std::size_t n_bytes, std::size_t alignment, stream_ref stream)
        {
                return allocate(stream, n_bytes, alignment);
        }
        void deallocate_async(void *pointer, std::size_t n_bytes, std::size_t alignment,
                              stream_ref stream) noexcept
        {
                deallocate(stream, pointer, n_bytes, alignment);
        }
        void *allocate(std::size_t n_bytes, std::size_t alignment = detail::alignment_default)
        {
                return allocate_sync(n_bytes, alignment);
        }
        void deallocate(void *pointer, std::size_t n_bytes,
                        std::size_t alignment = detail::alignment_default) noexcept
        {
                deallocate_sync(pointer, n_bytes, alignment);
        }

        const alloc_options &options() const noexcept { return how_; }
        friend bool operator==(const basic_resource &a, const basic_resource &b) noexcept
        {
                return a.how_.client == b.how_.client;
        }
        friend bool operator!=(const basic_resource &a, const basic_resource &b) noexcept
        {
                return !(a == b);
        }

private:
        alloc_options how_;
};

template <class... Properties> using device_resource = basic_resource<GPUMEM_DEVICE, Properties...>;
template <class... Properties> using pinned_resource = basic_resource<GPUMEM_PINNED, Properties...>;

// For RMM before 26.06, whose resources have a base class:
//     gpumem::rmm_resource<rmm::mr::device_memory_resource, rmm::cuda_stream_view> memory;
//     rmm::mr::set_current_device_resource(&memory);
template <class Base, class StreamView> class rmm_resource final : public Base {
public:
        rmm_resource() = default;
        explicit rmm_resource(const alloc_options &how) : resource_(how) {}

private:
        void *do_allocate(std::size_t n_bytes, StreamView stream) override
        {
                return resource_.allocate(stream_ref(stream), n_bytes);
        }
        void do_deallocate(void *pointer, std::size_t n_bytes, StreamView stream) noexcept override
        {
                resource_.deallocate(stream_ref(stream), pointer, n_bytes);
        }
        bool do_is_equal(const Base &other) const noexcept override
        {
                const auto *same = dynamic_cast<const rmm_resource *>(&other);
                return same && same->resource_ == resource_;
        }

        device_resource<> resource_;
};

// An allocator of the standard library and of Thrust. Pointer is T * or a class such as thrust::device_ptr<T>. With a
// stream it allocates and frees in that stream's order. Without one, the default stream's for device memory; pinned
// memory is freed when the context's work is over.
//     thrust::device_vector<float, gpumem::device_allocator<float, thrust::device_ptr<float>>> values(n);
//     std::vector<float, gpumem::pinned_allocator<float>> staging(n);
template <class T, gpumem_kind Kind, class Pointer = T *> class basic_allocator {
public:
        using value_type = T;
        using pointer = Pointer;
        using const_pointer = typename std::pointer_traits<Pointer>::template rebind<const T>;
        using size_type = std::size_t;
        using difference_type = std::ptrdiff_t;
        using propagate_on_container_copy_assignment = std::true_type;
        using propagate_on_container_move_assignment = std::true_type;
        using propagate_on_container_swap = std::true_type;
        using is_always_equal = std::false_type;
        template <class U> struct rebind {
                using other = basic_allocator<
                        U, Kind, typename std::pointer_traits<Pointer>::template rebind<U>>;
        };

        basic_allocator() noexcept = default;
        explicit basic_allocator(const alloc_options &how) noexcept : resource_(how) {}
        explicit basic_allocator(stream_ref stream, const alloc_options &how = {}) noexcept
                : resource_(how), stream_(stream), has_stream_(true)
        {}
        template <class U, class OtherPointer>
        basic_allocator(const basic_allocator<U, Kind, OtherPointer> &other) noexcept
                : resource_(other.resource_), stream_(other.stream_), has_stream_(other.has_stream_)
        {}

        [[nodiscard]] Pointer allocate(std::size_t n)
        {
                if (n > std::numeric_limits<std::size_t>::max() / sizeof(T))
                        throw std::bad_array_new_length();
                return Pointer(static_cast<T *>(resource_.allocate(stream_, n * sizeof(T))));
        }
        void deallocate(Pointer memory, std::size_t n) noexcept
        {
                if (has_stream_)
                        resource_.deallocate(stream_, address(memory), n * sizeof(T));
                else
                        resource_.deallocate_sync(address(memory), n * sizeof(T));
        }
        stream_ref stream() const noexcept { return stream_; }

        template <class U, class OtherPointer>
        bool operator==(const basic_allocator<U, Kind, OtherPointer> &other) const noexcept
        {
                return resource_ == other.resource_ && stream_.get() == other.stream_.get() &&
                       has_stream_ == other.has_stream_;
        }
        template <class U, class OtherPointer>
        bool operator!=(const basic_allocator<U, Kind, OtherPointer> &other) const noexcept
        {
                return !(*this == other);
        }

private:
        template <class U, gpumem_kind OtherKind, class OtherPointer> friend class basic_allocator;

        template <class Address> static void *address(const Address &memory) noexcept
        {
                if constexpr (std::is_pointer_v<Address>)
                        return memory;
                else
                        return memory.get();
        }

        basic_resource<Kind> resource_;
        stream_ref stream_;
        bool has_stream_ = Kind == GPUMEM_DEVICE;
};

template <class T, class Pointer = T *>
using device_allocator = basic_allocator<T, GPUMEM_DEVICE, Pointer>;
template <class T, class Pointer = T *>
using pinned_allocator = basic_allocator<T, GPUMEM_PINNED, Pointer>;

} // namespace gpumem

#endif
