// What becomes of the losses of all points, or of all samples and channels.
#pragma once

namespace halogen {

/// As torch.nn's `reduction`; batch_mean: the sum by the number of samples, as nn.KLDivLoss has it.
enum class LossReduction { mean, sum, batch_mean };

}  // namespace halogen
