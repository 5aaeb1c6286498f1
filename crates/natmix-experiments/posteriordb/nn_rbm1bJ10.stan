// A network with one hidden layer; the first class has a constant logit.
data {
  int<lower=0> N;
  int<lower=1> M;
  int<lower=2> K;
  matrix[N, M] x;
  array[N] int<lower=1, upper=K> y;
}
transformed data {
  int J = 10;
  real nu = 0.5;
  real scale_alpha = square(0.05 / pow(M, 1 / nu));
  real scale_beta = square(0.05 / pow(J, 1 / nu));
}
parameters {
  real<lower=0> sigma2_alpha;
  real<lower=0> sigma2_beta;
  matrix[M, J] alpha;
  matrix[J, K - 1] beta;
  row_vector[J] alpha1;
  row_vector[K - 1] beta1;
}
model {
  alpha1 ~ std_normal();
  beta1 ~ std_normal();
  sigma2_alpha ~ inv_gamma(nu / 2, nu * scale_alpha / 2);
  sigma2_beta ~ inv_gamma(nu / 2, nu * scale_beta / 2);
  to_vector(alpha) ~ normal(0, sqrt(sigma2_alpha));
  to_vector(beta) ~ normal(0, sqrt(sigma2_beta));
  matrix[N, J] hidden = tanh(x * alpha + rep_matrix(alpha1, N));
  matrix[N, K] logits = append_col(rep_vector(1, N), hidden * beta + rep_matrix(beta1, N));
  for (n in 1 : N) {
    y[n] ~ categorical_logit(logits[n]');
  }
}
