// Calls the kernel on many shapes with arrays of exactly their size, to be built with sanitizers.
#include <cstdio>
#include <random>
#include <vector>

#include "dispatch.h"

using namespace bnn_atlas;

int main() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  int calls = 0;
  for (int set = AVX2; set <= best(); set++)
    for (const std::vector<int32_t>& hidden : {std::vector<int32_t>{}, {1}, {16, 16}, {5, 33}, {64, 64, 64}})
      for (int head = KNOWN_NOISE; head <= CATEGORICAL; head++)
        for (int activation = IDENTITY; activation <= GELU; activation++)
          for (int count : {1, 17, 64, 80, 150, 4101}) {
            if (count == 4101 && (hidden.size() != 2 || activation != RELU)) continue;
            const int features = 1 + calls % 7, outputs = head == CATEGORICAL ? 1 + calls % 11 : head >= EXP_NOISE ? 2 : 1;
            std::vector<int32_t> widths{features};
            widths.insert(widths.end(), hidden.begin(), hidden.end());
            widths.push_back(outputs);
            const Network network{widths.data(), static_cast<int32_t>(widths.size()) - 1, static_cast<Activation>(activation),
                                  calls % 2 == 0, static_cast<Head>(head), 0.0f, 1.0f};
            const bool by_feature = calls % 3 == 0, chosen = !by_feature && calls % 3 == 1, weighted = calls % 5 == 0;
            const int stride = by_feature ? count : 0;
            std::vector<float> x(static_cast<size_t>(features) * count), y(count), weights(weighted ? count : 0);
            std::vector<float> theta(parameters(network)), slopes(theta.size());
            std::vector<int32_t> labels(count), indices(chosen ? count / 2 + 1 : 0);
            for (float& v : x) v = normal(random);
            for (float& v : y) v = normal(random);
            for (float& v : theta) v = normal(random);
            for (float& v : weights) v = static_cast<float>(random() % 2);
            for (int32_t& v : labels) v = static_cast<int32_t>(random() % outputs);
            for (int32_t& v : indices) v = static_cast<int32_t>(random() % (count + 10)) - 5;
            const void* targets = head == CATEGORICAL ? static_cast<const void*>(labels.data()) : y.data();
            const Rows rows{x.data(), stride, targets, weighted ? weights.data() : nullptr, chosen ? indices.data() : nullptr,
                            count, chosen ? static_cast<int64_t>(indices.size()) : count};
            float value = 0, alone = 0;
            if (!gradient(static_cast<InstructionSet>(set), network, rows, theta.data(), &value, slopes.data())) return 2;
            if (!gradient(static_cast<InstructionSet>(set), network, rows, theta.data(), &alone, nullptr)) return 2;
            if (value != alone || value != value) return 3;
            calls++;
          }
  std::printf("%d calls\n", calls);
}
