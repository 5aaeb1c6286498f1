// Linear regression of the logarithm of earnings on the logarithm of height, and on sex.
data {
  int<lower=0> N;
  vector[N] earn;
  vector[N] height;
  vector[N] male;
}
transformed data {
  matrix[N, 2] predictors;
  vector[N] outcome = log(earn);
  predictors[ : , 1] = log(height);
  predictors[ : , 2] = male;
}
parameters {
  vector[3] beta;
  real<lower=0> sigma;
}
model {
  outcome ~ normal_id_glm(predictors, beta[1], beta[2 : 3], sigma);
}
