// Linear regression of the logarithm of the weight of mesquite leaves on that of the volume.
data {
  int<lower=0> N;
  vector[N] weight;
  vector[N] diam1;
  vector[N] diam2;
  vector[N] canopy_height;
}
transformed data {
  matrix[N, 1] predictors;
  vector[N] outcome = log(weight);
  predictors[ : , 1] = log(diam1 .* diam2 .* canopy_height);
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  outcome ~ normal_id_glm(predictors, beta[1], beta[2 : 2], sigma);
}
