// Linear regression of party identification.
data {
  int<lower=0> N;
  vector[N] partyid7;
  vector[N] real_ideo;
  vector[N] race_adj;
  array[N] int age_discrete;
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
}
transformed data {
  matrix[N, 8] predictors;
  predictors[ : , 1] = real_ideo;
  predictors[ : , 2] = race_adj;
  for (n in 1 : N) {
    for (level in 2 : 4) {
      predictors[n, level + 1] = age_discrete[n] == level;
    }
  }
  predictors[ : , 6] = educ1;
  predictors[ : , 7] = gender;
  predictors[ : , 8] = income;
}
parameters {
  vector[9] beta;
  real<lower=0> sigma;
}
model {
  partyid7 ~ normal_id_glm(predictors, beta[1], beta[2 : 9], sigma);
}
