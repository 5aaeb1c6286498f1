// The same with standardised height.
data {
  int<lower=0> N;
  vector[N] earn;
  vector[N] height;
  vector[N] male;
}
transformed data {
  matrix[N, 3] predictors;
  vector[N] outcome = log(earn);
  vector[N] z = (height - mean(height)) / sd(height);
  predictors[ : , 1] = z;
  predictors[ : , 2] = male;
  predictors[ : , 3] = z .* male;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  outcome ~ normal_id_glm(predictors, beta[1], beta[2 : 4], sigma);
}
