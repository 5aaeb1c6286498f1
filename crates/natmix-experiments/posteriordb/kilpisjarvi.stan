// Linear regression on the year, which is not centred.
data {
  int<lower=0> N;
  vector[N] x;
  vector[N] y;
  real pmualpha;
  real<lower=0> psalpha;
  real pmubeta;
  real<lower=0> psbeta;
}
transformed data {
  matrix[N, 1] predictor = to_matrix(x);
}
parameters {
  real alpha;
  real beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(pmualpha, psalpha);
  beta ~ normal(pmubeta, psbeta);
  y ~ normal_id_glm(predictor, alpha, [beta]', sigma);
}
