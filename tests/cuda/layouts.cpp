// A class has one layout on the host and on the device: a kernel that gets a view, and a value behind it, finds both.
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdio>

namespace {

template <class View>
struct Behind {
  View view;
  std::size_t value;
  Kokkos::View<std::size_t*, Kokkos::CudaSpace> found;
  KOKKOS_FUNCTION void operator()(int) const {
    found(0) = static_cast<std::size_t>(reinterpret_cast<const char*>(&value) - reinterpret_cast<const char*>(this));
    found(1) = view.extent(0);
    found(2) = value;
  }
};

template <class View>
int differences(const View& view, const char* name) {
  const Behind<View> functor{view, 17, Kokkos::View<std::size_t*, Kokkos::CudaSpace>("found", 3)};
  Kokkos::parallel_for("layout", Kokkos::RangePolicy<Kokkos::Cuda>(0, 1), functor);
  const auto found = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), functor.found);
  const auto place =
      static_cast<std::size_t>(reinterpret_cast<const char*>(&functor.value) - reinterpret_cast<const char*>(&functor));
  if (found(0) == place && found(1) == view.extent(0) && found(2) == 17) return 0;
  std::printf("%s: the value is at byte %zu, on the device at %zu; extent %zu, on the device %zu\n", name, place,
              found(0), std::size_t{view.extent(0)}, found(1));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard guard(argc, argv);
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  const Kokkos::View<float*> line("line", 5);
  const Kokkos::View<double**> plane("plane", 6, 7);
  int wrong = differences(line, "View<float*>") + differences(plane, "View<double**>");
  wrong += differences(Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::CudaSpace, Unmanaged>(line.data(), 5),
                       "unmanaged View<float*>");
  wrong +=
      differences(Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::Device<Kokkos::Cuda, Kokkos::AnonymousSpace>>(line),
                  "View<float*> of an anonymous space");
  const Kokkos::View<float*> filled("filled", 100);
  Kokkos::deep_copy(filled, 1.5f);
  const auto values = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), filled);
  for (std::size_t i = 0; i < 100; ++i) wrong += values(i) != 1.5f;
  std::printf("layouts: %d differ\n", wrong);
  return wrong == 0 ? 0 : 1;
}
