"""Types of the compiled module that the Python files of natmix call."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, final

from numpy import float64
from numpy.typing import ArrayLike, NDArray

__all__ = ["Mixture", "Record", "Run", "Target", "__version__", "fit"]
__version__: str

_Floats = NDArray[float64]

@final
class Target:
    @staticmethod
    def callable(
        function: Callable[[_Floats], Any],
        context: Any,
        names: Sequence[str],
        gradient: str,
        curvature: str | None = None,
        curvature_function: Callable[[_Floats], Any] | None = None,
    ) -> Target: ...
    @staticmethod
    def compiled(address: int, user_data: int, owner: Any, names: Sequence[str]) -> Target: ...
    @staticmethod
    def regression(
        kind: str,
        values: ArrayLike,
        names: Sequence[str],
        levels: Mapping[int, Sequence[str]],
        outcome: str,
        offset: str | None,
        exposure: str | None,
        weights: str | None,
        standardize: bool,
        intercept: bool,
        prior_sd: float,
        noise_sd: float | None,
    ) -> Target: ...
    @staticmethod
    def formula(
        kind: str,
        values: ArrayLike,
        names: Sequence[str],
        levels: Mapping[int, Sequence[str]],
        given: Mapping[str, Any],
    ) -> Target: ...
    @staticmethod
    def columns_of_formula(formula: str) -> tuple[list[str], bool]: ...
    @staticmethod
    def network(
        values: ArrayLike,
        names: Sequence[str],
        levels: Mapping[int, Sequence[str]],
        outcome: str,
        standardize: bool,
        training: Mapping[str, Any],
        test: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Target: ...
    @staticmethod
    def density(spec: str | Mapping[str, Any]) -> Target: ...
    @staticmethod
    def stan(
        file: str | PathLike[str] | None,
        code: str | None,
        data: str,
        data_file: str | PathLike[str] | None,
        init: str | None,
        seed: int,
        httpstan: str | PathLike[str] | None,
        tell: Callable[[str], Any],
    ) -> Target: ...
    @property
    def variables(self) -> list[tuple[str, list[int]]]: ...
    @property
    def start(self) -> _Floats | None: ...
    def take_messages(self) -> list[str]: ...
    def variables_at(self, z: ArrayLike, seed: int, threads: int = 0) -> list[tuple[str, str, _Floats]]: ...
    @property
    def dim(self) -> int: ...
    @property
    def parameter_names(self) -> list[str]: ...
    @property
    def summary(self) -> str: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def priors(self) -> list[str]: ...
    @property
    def rows(self) -> int | None: ...
    def to_parameters(self, z: ArrayLike) -> _Floats: ...
    def evaluate(self, z: ArrayLike) -> tuple[_Floats, _Floats]: ...
    def values(self, z: ArrayLike) -> _Floats: ...
    def log_likelihood(self, z: ArrayLike) -> _Floats | None: ...

@final
class Mixture:
    def __new__(cls, weights: ArrayLike, means: ArrayLike, covariances: ArrayLike) -> Mixture: ...
    @property
    def dim(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def weights(self) -> _Floats: ...
    @property
    def means(self) -> _Floats: ...
    @property
    def covariances(self) -> _Floats: ...
    def modes(self) -> _Floats: ...
    def sample(self, n: int, seed: int) -> _Floats: ...
    def log_density(self, z: ArrayLike) -> _Floats: ...
    def resample(self, target: Target, n: int, seed: int, threads: int) -> _Floats: ...
    def components_of(self, z: ArrayLike) -> list[int]: ...

@final
class Run:
    @property
    def draws(self) -> _Floats: ...

@final
class Record:
    def __new__(
        cls,
        run: Run,
        target: Target,
        kind: str,
        what: str,
        variables: Sequence[tuple[str, Sequence[int], Sequence[str]]],
        coords: Mapping[str, Any],
        names: Sequence[str] | None = None,
        draws: ArrayLike | None = None,
    ) -> Record: ...
    @staticmethod
    def load(dir: str | PathLike[str]) -> Record: ...
    def save(self, dir: str | PathLike[str], target: Target | None = None) -> None: ...
    def parts(self) -> tuple[bytes, str, str, _Floats, list[int], _Floats | None]: ...
    @staticmethod
    def from_parts(
        posterior: bytes,
        report: str,
        trace: str,
        draws: ArrayLike,
        component: Sequence[int],
        variables: ArrayLike | None = None,
    ) -> Record: ...
    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def kind(self) -> str: ...
    @property
    def variables(self) -> list[tuple[str, list[int], list[str]]]: ...
    @property
    def coords(self) -> dict[str, list[Any]]: ...
    @property
    def variable_draws(self) -> list[tuple[str, str, _Floats]] | None: ...
    def is_of(self, target: Target) -> bool | None: ...
    @property
    def columns(self) -> tuple[list[tuple[str, list[str] | None]], str | None, str | None] | None: ...
    @property
    def mixture(self) -> Mixture: ...
    @property
    def has_weighted_draws(self) -> bool: ...
    @property
    def chains(self) -> dict[str, Any] | None: ...
    def sample(self, n: int, seed: int) -> _Floats: ...
    @property
    def parameter_names(self) -> list[str]: ...
    @property
    def draws(self) -> _Floats: ...
    @property
    def trace(self) -> dict[str, NDArray[Any]]: ...
    def html(self, target: Target | None = None) -> str: ...
    def whole_report(self, target: Target | None = None) -> dict[str, Any]: ...
    def to_own_scale(self, z: ArrayLike) -> _Floats: ...
    def predict(
        self,
        values: ArrayLike,
        names: Sequence[str],
        levels: Mapping[int, Sequence[str]],
        draws: int,
        seed: int,
        threads: int,
        per_component: bool,
    ) -> list[dict[str, _Floats]]: ...

def fit(
    target: Target,
    keywords: Mapping[str, Any],
    start: Mixture | None = None,
    progress: Callable[[int, int, float, float, float, int, tuple[int, float] | None], None] | None = None,
    finish: int | None = None,
) -> Run: ...
