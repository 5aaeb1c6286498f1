// Everything of Stan that a model and the interface below need; precompiled once per toolchain.
#ifndef NATMIX_STAN_HPP
#define NATMIX_STAN_HPP

#include <stan/model/model_header.hpp>

#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/model/log_prob_grad.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#endif
