// Linear regression of test scores on the mothers' schooling and IQ, centred, which interact.
data {
  int<lower=0> N;
  vector[N] kid_score;
  vector[N] mom_hs;
  vector[N] mom_iq;
}
transformed data {
  matrix[N, 3] predictors;
  vector[N] schooling = mom_hs - mean(mom_hs);
  vector[N] iq = mom_iq - mean(mom_iq);
  predictors[ : , 1] = schooling;
  predictors[ : , 2] = iq;
  predictors[ : , 3] = schooling .* iq;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  kid_score ~ normal_id_glm(predictors, beta[1], beta[2 : 4], sigma);
}
