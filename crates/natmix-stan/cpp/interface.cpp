// The C interface of BridgeStan (version 2) for a Stan model, for any tree of Stan's headers.
//
// Compiled once per toolchain and linked with the C++ code that stanc makes of a program, which defines `new_model`.
// Every function that can fail returns something other than zero, or a null pointer, and leaves a message that the
// caller frees with `bs_free_error_msg`. All of them may be called from several threads at once.

#include "natmix_stan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#define NATMIX_EXPORT extern "C" __attribute__((visibility("default")))

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);

// Older and newer versions of Stan have different generators.
using bs_rng = decltype(stan::services::util::create_rng(0, 1));

struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name;
  std::string info;
  std::string unconstrained_names;
  // By whether transformed parameters and generated quantities are included.
  std::string names[2][2];
  int count[2][2];
};

typedef void (*print_callback)(const char* text, size_t length);

namespace {

std::mutex printing;
print_callback print_to = nullptr;

// What a model prints while a function runs; handed on when the function ends.
class Printed {
 public:
  Printed() : stream(buffer()) {}
  ~Printed() {
    if (stream.tellp() <= 0) return;
    std::string text = stream.str();
    stream.str("");
    std::lock_guard<std::mutex> one_at_a_time(printing);
    if (print_to) {
      print_to(text.data(), text.size());
    } else {
      std::cout << text << std::flush;
    }
  }
  std::ostream* to() { return &stream; }

 private:
  // A new stream for every evaluation would cost more than a small model.
  static std::ostringstream& buffer() {
    static thread_local std::ostringstream one;
    one.clear();
    return one;
  }
  std::ostringstream& stream;
};

void leave(char** error, const char* text) {
  if (error) *error = strdup(text);
}

// Makes the stack of automatic differentiation that every thread needs, once.
void prepare_thread() { static thread_local stan::math::ChainableStack stack; }

// Runs `work`; an exception becomes a message.
template <typename Work>
int guarded(char** error, Work&& work) {
  prepare_thread();
  try {
    work();
    return 0;
  } catch (const std::exception& exception) {
    leave(error, exception.what());
  } catch (...) {
    leave(error, "an unknown error");
  }
  return 1;
}

std::unique_ptr<stan::io::var_context> read_json(const char* text) {
  if (!text || !*text) return std::make_unique<stan::io::empty_var_context>();
  const size_t length = std::strlen(text);
  if (length > 5 && std::strcmp(text + length - 5, ".json") == 0) {
    std::ifstream file(text);
    if (!file) throw std::runtime_error(std::string("cannot open ") + text);
    return std::make_unique<stan::json::json_data>(file);
  }
  std::istringstream stream(text);
  return std::make_unique<stan::json::json_data>(stream);
}

std::string with_commas(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ",") + name;
  return all;
}

Eigen::VectorXd copied(const double* numbers, int count) {
  return Eigen::Map<const Eigen::VectorXd>(numbers, count);
}

void hand_over(const Eigen::VectorXd& numbers, double* to, Eigen::Index expected) {
  if (numbers.size() != expected) throw std::runtime_error("the model returned a wrong number of values");
  std::copy(numbers.data(), numbers.data() + numbers.size(), to);
}

double density(const bs_model* m, bool propto, bool jacobian, const double* at, double* gradient) {
  Eigen::VectorXd parameters = copied(at, m->model->num_params_r());
  Printed printed;
  if (!gradient && !propto) {
    return jacobian ? m->model->template log_prob<false, true>(parameters, printed.to())
                    : m->model->template log_prob<false, false>(parameters, printed.to());
  }
  Eigen::VectorXd slope;
  const auto& model = *m->model;
  const double value = propto ? (jacobian ? stan::model::log_prob_grad<true, true>(model, parameters, slope, printed.to())
                                          : stan::model::log_prob_grad<true, false>(model, parameters, slope, printed.to()))
                              : (jacobian ? stan::model::log_prob_grad<false, true>(model, parameters, slope, printed.to())
                                          : stan::model::log_prob_grad<false, false>(model, parameters, slope, printed.to()));
  if (gradient) hand_over(slope, gradient, parameters.size());
  return value;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) int bs_major_version = 2;
__attribute__((visibility("default"))) int bs_minor_version = 7;
__attribute__((visibility("default"))) int bs_patch_version = 0;
}

NATMIX_EXPORT void bs_free_error_msg(char* error) { std::free(error); }

NATMIX_EXPORT bs_model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  std::unique_ptr<bs_model> made;
  const int failed = guarded(error, [&] {
    Printed printed;
    auto context = read_json(data);
    auto m = std::make_unique<bs_model>();
    m->model.reset(&new_model(*context, seed, printed.to()));
    m->name = m->model->model_name();
    std::ostringstream info;
    info << "Stan version: " << stan::MAJOR_VERSION << "." << stan::MINOR_VERSION << "." << stan::PATCH_VERSION
         << "\nStan C++ Defines:\n\tSTAN_THREADS=true\nStan Compiler Details:\n";
    for (const std::string& line : m->model->model_compile_info()) info << "\t" << line << "\n";
    m->info = info.str();
    std::vector<std::string> names;
    m->model->unconstrained_param_names(names, false, false);
    m->unconstrained_names = with_commas(names);
    for (int tp = 0; tp < 2; ++tp) {
      for (int gq = 0; gq < 2; ++gq) {
        names.clear();
        m->model->constrained_param_names(names, tp, gq);
        m->names[tp][gq] = with_commas(names);
        m->count[tp][gq] = static_cast<int>(names.size());
      }
    }
    made = std::move(m);
  });
  return failed ? nullptr : made.release();
}

NATMIX_EXPORT void bs_model_destruct(bs_model* m) { delete m; }

NATMIX_EXPORT const char* bs_name(const bs_model* m) { return m->name.c_str(); }

NATMIX_EXPORT const char* bs_model_info(const bs_model* m) { return m->info.c_str(); }

NATMIX_EXPORT const char* bs_param_names(const bs_model* m, bool include_tp, bool include_gq) {
  return m->names[include_tp][include_gq].c_str();
}

NATMIX_EXPORT const char* bs_param_unc_names(const bs_model* m) { return m->unconstrained_names.c_str(); }

NATMIX_EXPORT int bs_param_num(const bs_model* m, bool include_tp, bool include_gq) {
  return m->count[include_tp][include_gq];
}

NATMIX_EXPORT int bs_param_unc_num(const bs_model* m) { return static_cast<int>(m->model->num_params_r()); }

NATMIX_EXPORT int bs_param_constrain(const bs_model* m, bool include_tp, bool include_gq, const double* unconstrained,
                                     double* constrained, bs_rng* rng, char** error) {
  return guarded(error, [&] {
    if (include_gq && !rng) throw std::invalid_argument("generated quantities need a random number generator");
    // Never drawn from without generated quantities. Making one takes longer than a small model.
    static thread_local bs_rng unused = stan::services::util::create_rng(0, 1);
    Eigen::VectorXd parameters = copied(unconstrained, bs_param_unc_num(m));
    Eigen::VectorXd values;
    Printed printed;
    m->model->write_array(rng ? *rng : unused, parameters, values, include_tp, include_gq, printed.to());
    hand_over(values, constrained, m->count[include_tp][include_gq]);
  });
}

NATMIX_EXPORT int bs_param_unconstrain(const bs_model* m, const double* constrained, double* unconstrained,
                                       char** error) {
  return guarded(error, [&] {
    Eigen::VectorXd parameters;
    Printed printed;
    m->model->unconstrain_array(copied(constrained, m->count[0][0]), parameters, printed.to());
    hand_over(parameters, unconstrained, m->model->num_params_r());
  });
}

NATMIX_EXPORT int bs_param_unconstrain_json(const bs_model* m, const char* json, double* unconstrained, char** error) {
  return guarded(error, [&] {
    auto context = read_json(json);
    Eigen::VectorXd parameters;
    Printed printed;
    m->model->transform_inits(*context, parameters, printed.to());
    hand_over(parameters, unconstrained, m->model->num_params_r());
  });
}

NATMIX_EXPORT int bs_log_density(const bs_model* m, bool propto, bool jacobian, const double* at, double* value,
                                 char** error) {
  return guarded(error, [&] { *value = density(m, propto, jacobian, at, nullptr); });
}

NATMIX_EXPORT int bs_log_density_gradient(const bs_model* m, bool propto, bool jacobian, const double* at,
                                          double* value, double* gradient, char** error) {
  return guarded(error, [&] { *value = density(m, propto, jacobian, at, gradient); });
}

// Other callers want second derivatives: by differences of gradients.
NATMIX_EXPORT int bs_log_density_hessian_vector_product(const bs_model* m, bool propto, bool jacobian, const double* at,
                                                        const double* direction, double* value, double* product,
                                                        char** error) {
  return guarded(error, [&] {
    const int dim = bs_param_unc_num(m);
    const Eigen::VectorXd point = copied(at, dim), along = copied(direction, dim);
    Eigen::VectorXd ahead(dim), behind(dim);
    *value = density(m, propto, jacobian, at, ahead.data());
    const double length = along.norm();
    const double step = length > 0 ? 1e-5 * (1 + point.norm()) / length : 0;
    const Eigen::VectorXd forward = point + step * along, backward = point - step * along;
    density(m, propto, jacobian, forward.data(), ahead.data());
    density(m, propto, jacobian, backward.data(), behind.data());
    const Eigen::VectorXd slope = step > 0 ? Eigen::VectorXd((ahead - behind) / (2 * step)) : Eigen::VectorXd::Zero(dim);
    hand_over(slope, product, dim);
  });
}

NATMIX_EXPORT int bs_log_density_hessian(const bs_model* m, bool propto, bool jacobian, const double* at, double* value,
                                         double* gradient, double* hessian, char** error) {
  const int dim = bs_param_unc_num(m);
  Eigen::MatrixXd columns(dim, dim);
  for (int i = 0; i < dim; ++i) {
    const Eigen::VectorXd unit = Eigen::VectorXd::Unit(dim, i);
    if (bs_log_density_hessian_vector_product(m, propto, jacobian, at, unit.data(), value, columns.col(i).data(), error))
      return 1;
  }
  Eigen::Map<Eigen::MatrixXd>(hessian, dim, dim) = 0.5 * (columns + columns.transpose());
  return bs_log_density_gradient(m, propto, jacobian, at, value, gradient, error);
}

NATMIX_EXPORT bs_rng* bs_rng_construct(unsigned int seed, char** error) {
  bs_rng* rng = nullptr;
  guarded(error, [&] { rng = new bs_rng(stan::services::util::create_rng(seed, 1)); });
  return rng;
}

NATMIX_EXPORT void bs_rng_destruct(bs_rng* rng) { delete rng; }

NATMIX_EXPORT int bs_set_print_callback(print_callback callback, char**) {
  std::lock_guard<std::mutex> one_at_a_time(printing);
  print_to = callback;
  return 0;
}
