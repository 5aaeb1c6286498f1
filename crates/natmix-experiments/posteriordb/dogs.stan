// Logistic regression on what happened to a dog before.
data {
  int<lower=0> n_dogs;
  int<lower=0> n_trials;
  array[n_dogs, n_trials] int<lower=0, upper=1> y;
}
transformed data {
  int N = n_dogs * n_trials;
  array[N] int outcome;
  matrix[N, 3] history;
  for (j in 1 : n_dogs) {
    int shocks = 0;
    for (t in 1 : n_trials) {
      int n = (j - 1) * n_trials + t;
      outcome[n] = y[j, t];
      history[n] = [1, t - 1 - shocks, shocks];
      shocks += y[j, t];
    }
  }
}
parameters {
  vector[3] beta;
}
model {
  beta ~ normal(0, 100);
  outcome ~ bernoulli_logit_glm(history, 0, beta);
}
