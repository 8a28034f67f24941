#define HALOGEN_PART 4
#define HALOGEN_READ 5
#include <halogen/array_language.hpp>
#include <halogen/layers/conv3d.hpp>
#include <halogen/layers/conv_transpose2d.hpp>
#include <halogen/train/evaluate_loss.hpp>
#include <halogen/train/trainer.hpp>

#include "../share.hpp"
