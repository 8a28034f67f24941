#define HALOGEN_PART 3
#define HALOGEN_READ 3
#include <halogen/array_language.hpp>
#include <halogen/train/evaluate_loss.hpp>
#include <halogen/train/trainer.hpp>

#include "../share.hpp"
