// Linear regression of test scores on the mothers' schooling and IQ.
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector[N] mom_hs;
  vector[N] mom_iq;
}
transformed data {
  matrix[N, 2] predictors;
  predictors[ : , 1] = mom_hs;
  predictors[ : , 2] = mom_iq;
}
parameters {
  vector[3] beta;
  real<lower=0> sigma;
}
model {
  sigma ~ cauchy(0, 2.5);
  kid_score ~ normal_id_glm(predictors, beta[1], beta[2 : 3], sigma);
}
