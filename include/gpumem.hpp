// SPDX-License-Identifier: Apache-2.0
// gpumem.hpp - gpumem.h for C++17: owners that free their memory, and exceptions
//
// The header needs gpumem.h and the standard library, and no header of CUDA. gpumem-cpp(3) describes it, with an
// example. gpumem-resources.hpp has memory resources and allocators.
//
// Errors    Functions throw what gpumem.h would return: out_of_memory, which is a std::bad_alloc, or failure. Both are
//           gpumem::error and std::exception. code() is the result, what() the call and the text of the refusal.
//           Destructors and functions that are noexcept count in failures() what they could not do.
// Clients   gpumem_client * nullptr is the process's default client. A client must outlive the memory of its owners.
// Streams   A stream_ref is made of a CUstream or cudaStream_t, or of an object that has one: cuda::stream_ref,
//           rmm::cuda_stream_view, c10::cuda::CUDAStream. Streams outlive what was allocated for them.
// Threads   Any thread may call any function. Two threads may not change one owner at the same time.
#ifndef GPUMEM_HPP
#define GPUMEM_HPP

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <unistd.h>

#include "gpumem.h"

namespace gpumem {

// The base of what is thrown.
class error {
public:
        virtual ~error() = default;
        // The result of the C function: GPUMEM_E_*, or a negative errno.
        int code() const noexcept { return code_; }
        virtual const char *what() const noexcept = 0;

protected:
        error(int code, const std::string &text) : code_(code), text_(text) {}
        error(const error &) = default;
        error &operator=(const error &) = default;
        const char *text() const noexcept { return text_.what(); }

private:
        int code_;
        std::runtime_error text_; // a text whose copy does not throw
};

// Memory was refused: the pool or the device has none, a limit, or the time to wait is over.
class out_of_memory : public error, public std::bad_alloc {
public:
        out_of_memory(int code, const std::string &text) : error(code, text) {}
        const char *what() const noexcept override { return text(); }
};

// Any other result.
class failure : public error, public std::exception {
public:
        failure(int code, const std::string &text) : error(code, text) {}
        const char *what() const noexcept override { return text(); }
};

namespace detail {

inline std::atomic<std::uint64_t> n_failures{0};

[[noreturn]] inline void fail(int code, const char *call, const char *text)
{
        const std::string what = std::string(call) + ": " + text;

        switch (code) {
        case GPUMEM_E_REFUSED:
        case GPUMEM_E_LIMIT:
        case GPUMEM_E_TOO_LARGE:
        case GPUMEM_E_DEVICE_FULL:
        case GPUMEM_E_TIMED_OUT:
        case -ENOMEM:
                throw out_of_memory(code, what);
        default:
                throw failure(code, what);
        }
}

// Of the process that loaded the program. A forked child has none of its parent's memory, so nothing is lost there.
inline const pid_t first_process = getpid();

inline void count_failure(int result) noexcept
{
        const bool is_of_parents = result == GPUMEM_E_NOT_OURS || result == GPUMEM_E_NOT_REGISTERED ||
                                   result == GPUMEM_E_NO_CAPTURE;
        const bool is_forked = result == GPUMEM_E_FORKED ||
                               (is_of_parents && getpid() != first_process);

        if (result && !is_forked)
                n_failures.fetch_add(1, std::memory_order_relaxed);
}

inline std::uint32_t wait_ms_of(std::chrono::milliseconds wait) noexcept
{
        const auto longest = std::numeric_limits<std::uint32_t>::max();
        const auto ms = std::clamp<std::chrono::milliseconds::rep>(wait.count(), 0, longest);
        return static_cast<std::uint32_t>(ms);
}

} // namespace detail

// Throws for a result of a C function that is not 0, so that programs can call those functions as well.
inline void check(int result, const char *call)
{
        if (result)
                detail::fail(result, call, gpumem_strerror(result));
}

// The same for the calls that gpumem_last_refusal describes: gpumem_alloc, gpumem_reserve, gpumem_share, gpumem_attach
// and gpumem_enable_peer, called with this client.
inline void check_request(int result, const char *call, gpumem_client *client = nullptr)
{
        if (!result)
                return;
        gpumem_refusal refusal{};
        refusal.struct_size = sizeof(refusal);
        if (gpumem_last_refusal(client, &refusal) == 0 && refusal.code == result)
                detail::fail(result, call, refusal.text);
        detail::fail(result, call, gpumem_strerror(result));
}

// How many calls of destructors and of noexcept functions failed since the process began. A sound program has 0.
inline std::uint64_t failures() noexcept
{
        return detail::n_failures.load(std::memory_order_relaxed);
}

// A stream that is not owned. Without an argument: the current context's legacy default stream.
class stream_ref {
        template <class Stream, class = void> struct has_get : std::false_type {};
        template <class Stream>
        struct has_get<Stream, std::void_t<decltype(std::declval<const Stream &>().get())>>
                : std::is_convertible<decltype(std::declval<const Stream &>().get()), void *> {};
        template <class Stream>
        static constexpr bool is_handle = std::is_convertible_v<const Stream &, void *>;

public:
        constexpr stream_ref() noexcept = default;
        template <class Stream, std::enable_if_t<is_handle<Stream>, int> = 0>
        constexpr stream_ref(const Stream &stream) noexcept : handle_(stream)
        {}
        template <class Stream,
                  std::enable_if_t<!is_handle<Stream> && has_get<Stream>::value, int> = 0>
        constexpr stream_ref(const Stream &stream) noexcept : handle_(stream.get())
        {}
        constexpr void *get() const noexcept { return handle_; }

private:
        void *handle_ = nullptr;
};

struct connect_options {
        const char *socket_path = nullptr;
        const char *cuda_library = nullptr;
        const char *program = nullptr;
};

// A connection of the program's own, ended with the object. Most programs use the default client instead.
class client {
public:
        explicit client(const connect_options &how = {})
        {
                gpumem_options options{};
                options.struct_size = sizeof(options);
                options.socket_path = how.socket_path;
                options.cuda_library = how.cuda_library;
                options.program = how.program;
                const int result = gpumem_connect(&options, &handle_);
                if (!result)
                        return;
                gpumem_refusal refusal{};
                refusal.struct_size = sizeof(refusal);
                const bool is_told = gpumem_connect_refusal(&refusal) == 0 &&
                                     refusal.code == result;
                detail::fail(result, "gpumem_connect",
                             is_told ? refusal.text : gpumem_strerror(result));
        }
        client(client &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
        client &operator=(client &&other) noexcept
        {
                client(std::move(other)).swap(*this);
                return *this;
        }
        ~client() { gpumem_disconnect(handle_); }
        void swap(client &other) noexcept { std::swap(handle_, other.handle_); }
        // For the options below and for functions of gpumem.h. It is nullptr, the default client, after a move.
        gpumem_client *handle() const noexcept { return handle_; }

private:
        gpumem_client *handle_ = nullptr;
};

// How memory is allocated, besides its kind, size and stream.
struct alloc_options {
        gpumem_client *client = nullptr;
        int place = GPUMEM_NEAREST; // a CUDA device, or a NUMA node
        std::uint32_t flags = 0;    // GPUMEM_SHAREABLE, GPUMEM_PRIMARY
        std::chrono::milliseconds wait{0};
};

namespace detail {

inline int allocate(gpumem_kind kind, std::size_t n_bytes, void *stream, const alloc_options &how,
                    void **ret_pointer) noexcept
{
        gpumem_request request{};
        request.struct_size = sizeof(request);
        request.kind = kind;
        request.stream = stream;
        request.n_bytes = n_bytes;
        request.flags = how.flags;
        request.wait_ms = wait_ms_of(how.wait);
        if (how.place != GPUMEM_NEAREST) {
                request.place = how.place;
                request.flags |= GPUMEM_AT_PLACE;
        }
        return gpumem_alloc(how.client, &request, ret_pointer);
}

// Frees in the order of `stream`. Where that cannot be, because no context is current or the stream is gone, in the
// order of the memory's own stream.
inline void free_in_stream(gpumem_client *client, void *pointer, void *stream) noexcept
{
        int result = gpumem_free(client, pointer, stream);

        if (result && result != GPUMEM_E_NOT_OURS && result != GPUMEM_E_FORKED)
                result = gpumem_free_in_order(client, pointer);
        count_failure(result);
}

// The same for attached memory. It has no stream of its own, so all work is waited for.
inline void detach_in_stream(gpumem_client *client, void *pointer, void *stream) noexcept
{
        int result = gpumem_detach(client, pointer, stream);

        if (result && result != GPUMEM_E_NOT_OURS && result != GPUMEM_E_FORKED)
                result = gpumem_detach_sync(client, pointer);
        count_failure(result);
}

inline void free_sync(gpumem_client *client, void *pointer) noexcept
{
        count_failure(gpumem_free_sync(client, pointer));
}

} // namespace detail

// An allocation. It is freed with the object, in the order of its stream. Pinned memory without a stream is freed when
// the context's work is over. 0 bytes are no allocation: data() is nullptr.
template <gpumem_kind Kind> class basic_buffer {
public:
        basic_buffer() noexcept = default;
        explicit basic_buffer(std::size_t n_bytes, const alloc_options &how = {})
                : basic_buffer(n_bytes, stream_ref(), how)
        {
                has_stream_ = Kind == GPUMEM_DEVICE;
        }
        basic_buffer(std::size_t n_bytes, stream_ref stream, const alloc_options &how = {})
                : n_bytes_(n_bytes), stream_(stream), client_(how.client)
        {
                if (n_bytes)
                        check_request(detail::allocate(Kind, n_bytes, stream.get(), how, &data_),
                                      "gpumem_alloc", client_);
        }
        basic_buffer(basic_buffer &&other) noexcept { swap(other); }
        basic_buffer &operator=(basic_buffer &&other) noexcept
        {
                basic_buffer(std::move(other)).swap(*this);
                return *this;
        }
        ~basic_buffer()
        {
                if (data_ && has_stream_)
                        detail::free_in_stream(client_, data_, stream_.get());
                else if (data_)
                        detail::free_sync(client_, data_);
        }
        void swap(basic_buffer &other) noexcept
        {
                std::swap(data_, other.data_);
                std::swap(n_bytes_, other.n_bytes_);
                std::swap(stream_, other.stream_);
                std::swap(client_, other.client_);
                std::swap(has_stream_, other.has_stream_);
        }

        void *data() const noexcept { return data_; }
        template <class T> T *as() const noexcept { return static_cast<T *>(data_); }
        std::size_t size() const noexcept // bytes
        {
                return n_bytes_;
        }
        explicit operator bool() const noexcept { return data_ != nullptr; }
        stream_ref stream() const noexcept { return stream_; }
        gpumem_client *client() const noexcept { return client_; }

        // gpumem_record_use: another stream uses the memory too.
        void record_use(stream_ref stream) const
        {
                check(gpumem_record_use(client_, data_, stream.get()), "gpumem_record_use");
        }
        // Free now. Unlike the destructor these throw, and then nothing is freed.
        void reset()
        {
                if (data_)
                        check(has_stream_ ? gpumem_free(client_, data_, stream_.get())
                                          : gpumem_free_sync(client_, data_),
                              has_stream_ ? "gpumem_free" : "gpumem_free_sync");
                (void)release();
        }
        void reset(stream_ref stream)
        {
                check(gpumem_free(client_, data_, stream.get()), "gpumem_free");
                (void)release();
        }
        // Leaves the memory to the caller, who frees it.
        [[nodiscard]] void *release() noexcept
        {
                n_bytes_ = 0;
                return std::exchange(data_, nullptr);
        }

private:
        void *data_ = nullptr;
        std::size_t n_bytes_ = 0;
        stream_ref stream_;
        gpumem_client *client_ = nullptr;
        bool has_stream_ = true;
};

using device_buffer = basic_buffer<GPUMEM_DEVICE>;
using pinned_buffer = basic_buffer<GPUMEM_PINNED>;

// A stream is registered (gpumem_stream_register) as long as the object lives.
class registered_stream {
public:
        explicit registered_stream(stream_ref stream, gpumem_client *client = nullptr)
                : stream_(stream), client_(client)
        {
                check(gpumem_stream_register(client, stream.get()), "gpumem_stream_register");
                is_registered_ = true;
        }
        registered_stream(registered_stream &&other) noexcept
                : stream_(other.stream_), client_(other.client_),
                  is_registered_(std::exchange(other.is_registered_, false))
        {}
        registered_stream &operator=(registered_stream &&other) noexcept
        {
                registered_stream taken(std::move(other));
                std::swap(stream_, taken.stream_);
                std::swap(client_, taken.client_);
                std::swap(is_registered_, taken.is_registered_);
                return *this;
        }
        ~registered_stream()
        {
                if (is_registered_)
                        detail::count_failure(gpumem_stream_unregister(client_, stream_.get()));
        }
        stream_ref stream() const noexcept { return stream_; }

private:
        stream_ref stream_;
        gpumem_client *client_;
        bool is_registered_ = false;
};

// Announces a capture for as long as it lives: made before cuStreamBeginCapture, destroyed after cuStreamEndCapture.
class announced_capture {
public:
        explicit announced_capture(gpumem_client *client = nullptr) : client_(client)
        {
                check(gpumem_before_capture(client), "gpumem_before_capture");
        }
        announced_capture(const announced_capture &) = delete;
        announced_capture &operator=(const announced_capture &) = delete;
        ~announced_capture() { detail::count_failure(gpumem_after_capture(client_)); }

private:
        gpumem_client *client_;
};

// A token's 16 bytes, and its text of 32 digits.
class token {
public:
        token() = default;
        explicit token(const gpumem_token &value) : value_(value) {}
        explicit token(const std::string &text)
        {
                check(gpumem_token_parse(text.c_str(), &value_), "gpumem_token_parse");
        }
        std::string text() const
        {
                char digits[GPUMEM_TOKEN_TEXT_BYTES];
                return gpumem_token_format(&value_, digits);
        }
        const gpumem_token &value() const noexcept { return value_; }

private:
        gpumem_token value_{};
};

struct share_options {
        std::uint32_t flags = 0; // GPUMEM_SHARE_GRANT
        std::uint32_t uid = 0;   // with GPUMEM_SHARE_GRANT
        std::chrono::milliseconds keep{0};
};

// A token by which other processes attach a buffer that was allocated with GPUMEM_SHAREABLE. It is revoked with the
// object, unless release() was called; memory that is attached already stays.
class shared {
public:
        template <gpumem_kind Kind>
        explicit shared(const basic_buffer<Kind> &buffer, const share_options &how = {})
                : client_(buffer.client())
        {
                gpumem_share_options options{};
                gpumem_token made;
                options.struct_size = sizeof(options);
                options.flags = how.flags;
                options.uid = how.uid;
                options.keep_ms = detail::wait_ms_of(how.keep);
                check_request(gpumem_share(client_, buffer.data(), &options, &made), "gpumem_share",
                              client_);
                token_ = gpumem::token(made);
                is_owned_ = true;
        }
        shared(shared &&other) noexcept
                : token_(other.token_), client_(other.client_), maker_(other.maker_),
                  is_owned_(std::exchange(other.is_owned_, false))
        {}
        shared &operator=(shared &&other) noexcept
        {
                shared taken(std::move(other));
                std::swap(token_, taken.token_);
                std::swap(client_, taken.client_);
                std::swap(maker_, taken.maker_);
                std::swap(is_owned_, taken.is_owned_);
                return *this;
        }
        ~shared()
        {
                // The token ends by itself when no process holds the memory. A forked child's copy of the object
                // leaves the token to the parent.
                if (is_owned_ && maker_ == getpid())
                        (void)gpumem_unshare(client_, &token_.value());
        }
        const gpumem::token &token() const noexcept { return token_; }
        gpumem::token release() noexcept
        {
                is_owned_ = false;
                return token_;
        }

private:
        gpumem::token token_;
        gpumem_client *client_;
        pid_t maker_ = getpid();
        bool is_owned_ = false;
};

// Memory of another process, attached by its token. It is detached with the object: after the work in `stream`, or,
// without a stream, after all work of the context, since it is not known which streams used it.
class attached {
public:
        explicit attached(const token &token, gpumem_client *client = nullptr) : client_(client)
        {
                attach(token);
        }
        attached(const token &token, stream_ref stream, gpumem_client *client = nullptr)
                : stream_(stream), client_(client), has_stream_(true)
        {
                attach(token);
        }
        attached(attached &&other) noexcept
                : data_(std::exchange(other.data_, nullptr)),
                  n_bytes_(std::exchange(other.n_bytes_, 0)), stream_(other.stream_),
                  client_(other.client_), has_stream_(other.has_stream_)
        {}
        attached &operator=(attached &&other) noexcept
        {
                attached taken(std::move(other));
                std::swap(data_, taken.data_);
                std::swap(n_bytes_, taken.n_bytes_);
                std::swap(stream_, taken.stream_);
                std::swap(client_, taken.client_);
                std::swap(has_stream_, taken.has_stream_);
                return *this;
        }
        ~attached()
        {
                if (data_ && has_stream_)
                        detail::detach_in_stream(client_, data_, stream_.get());
                else if (data_)
                        detail::count_failure(gpumem_detach_sync(client_, data_));
        }
        void *data() const noexcept { return data_; }
        template <class T> T *as() const noexcept { return static_cast<T *>(data_); }
        std::size_t size() const noexcept // bytes, as the owner requested them
        {
                return n_bytes_;
        }
        // Detaches now. Unlike the destructor it throws, and then nothing is detached.
        void reset()
        {
                check(has_stream_ ? gpumem_detach(client_, data_, stream_.get())
                                  : gpumem_detach_sync(client_, data_),
                      has_stream_ ? "gpumem_detach" : "gpumem_detach_sync");
                data_ = nullptr;
                n_bytes_ = 0;
        }

private:
        void attach(const token &token)
        {
                std::uint64_t n_bytes = 0;
                check_request(gpumem_attach(client_, &token.value(), &data_, &n_bytes),
                              "gpumem_attach", client_);
                n_bytes_ = static_cast<std::size_t>(n_bytes);
        }

        void *data_ = nullptr;
        std::size_t n_bytes_ = 0;
        stream_ref stream_;
        gpumem_client *client_;
        bool has_stream_ = false;
};

} // namespace gpumem

#endif
