// SPDX-License-Identifier: Apache-2.0
// gpumem-resources.hpp with the headers of RMM 26.04, the last whose resources have a base class. It is compiled only.
#include <gpumem-resources.hpp>

#include <rmm/mr/per_device_resource.hpp>
#include <rmm/resource_ref.hpp>

using Resource = gpumem::rmm_resource<rmm::mr::device_memory_resource, rmm::cuda_stream_view>;
static_assert(!std::is_abstract_v<Resource>);

int main()
{
        Resource resource;
        gpumem::device_resource<cuda::mr::device_accessible> direct;
        rmm::device_async_resource_ref reference{direct};
        rmm::mr::set_current_device_resource(&resource);
        return reference == rmm::device_async_resource_ref{resource};
}
