#include <halogen/export.hpp>

HALOGEN_EXPORT(hosts_model, hg::UNet<7, 3, 16>, float);
