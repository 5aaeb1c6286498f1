// Linear regression of test scores on the mothers' schooling.
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector[N] mom_hs;
}
transformed data {
  matrix[N, 1] predictors;
  predictors[ : , 1] = mom_hs;
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  sigma ~ cauchy(0, 2.5);
  kid_score ~ normal_id_glm(predictors, beta[1], beta[2 : 2], sigma);
}
