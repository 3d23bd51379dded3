"""Tries functions of SciPy and scikit-learn on tensors, and writes what works into the docs.

    python scripts/interoperation_table.py                writes docs/interoperation.md
    python scripts/interoperation_table.py --check [n]    says what is not as it says there, of all
                                                          functions or of n, and exits with 1

Each function is called with NumPy arrays and with tensors of the same values, and works where both
return the same.  The tables hold for the versions that stand above them; with others it exits with
2.  The environment names the device: PYRITE_DEVICE=cpu.
"""

from __future__ import annotations

import ast
import importlib
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import scipy
import sklearn

import pyrite

PAGE = Path(__file__).resolve().parent.parent / "docs" / "interoperation.md"
BEGIN = "<!-- made by scripts/interoperation_table.py -->"
END = "<!-- end of what was made -->"
VERSIONS = f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"

_random = np.random.default_rng(0)

#: Arguments by name: a and b of any sign, p positive, u between 0 and 1, m and q matrices.
DATA: dict[str, Any] = {
    "a": _random.normal(size=20), "b": _random.normal(size=20), "m": _random.normal(size=(6, 4)),
    "p": _random.uniform(0.1, 3, 12), "u": _random.uniform(0.05, 0.95, 12),
    "h": np.array([1.0, 2.0, 1.0]), "d": np.array([1.0, 0.5]), "k": np.ones((3, 3)),
    "long": _random.normal(size=400), "sos": np.array([[1.0, 2, 1, 1, 0.5, 0.1]]),
    "even": np.full(12, 5.0), "grid": np.arange(12.0), "eye": np.eye(2),
    "points": np.array([[1.0, 2], [1, 2]]), "mask": _random.normal(size=(6, 4)) > 0,
    "X": _random.normal(size=(40, 5)).astype(np.float32),
    "Z": _random.uniform(0.1, 2, (40, 5)).astype(np.float32),
    "y": (np.arange(40) % 3 > 0).astype(np.int32), "z": (np.arange(40) % 2).astype(np.int32),
    "s": _random.uniform(0.05, 0.95, 40).astype(np.float32),
    "t": _random.uniform(0.5, 3, 40).astype(np.float32),
    "w": _random.uniform(0.5, 3, 40).astype(np.float32),
}  # fmt: skip
DATA["tree"] = scipy.cluster.hierarchy.linkage(DATA["m"])
DATA["condensed"] = scipy.spatial.distance.pdist(DATA["m"])
DATA["labels"] = (DATA["m"] > 0).astype(np.int32)

#: Package, and function with the names of its arguments, or with numbers.
FUNCTIONS = {
    "scipy.special": """
        erf a; erfc a; expit a; logit u; ndtr a; ndtri u; gammaln p; digamma p; i0 p; i0e p; i1 p;
        i1e p; log_ndtr a; entr p; rel_entr p u; xlogy p u; betainc p p u; gammainc p p;
        gammaincc p p; stdtrit p u; chdtr p p; chdtrc p p; logsumexp a; log_softmax a; softmax a;
        betaln p p; binom p p; sinc a""",
    "scipy.stats": """
        zscore a; moment a; skew a; kurtosis a; gmean p; hmean p; pmean p 2; variation p;
        describe a; sem a; entropy p; ttest_ind a b; ttest_1samp a 0.0; ttest_rel a b; pearsonr a b;
        jarque_bera a; skewtest a; kurtosistest a; normaltest a; chisquare even;
        power_divergence even; combine_pvalues u; bartlett a b; mode a; rankdata a; kstat a;
        kstatvar a; circmean a; circvar a; circstd a; directional_stats m; trim_mean a 0.1; tmean a;
        tvar a; tmin a; tmax a; iqr a; sigmaclip a; quantile a 0.5; gstd p; zmap a b; gzscore p;
        expectile a; obrientransform a b; levene a b; fligner a b; mannwhitneyu a b; kruskal a b;
        friedmanchisquare a b a; spearmanr a b; kendalltau a b; linregress a b; theilslopes a b;
        f_oneway a b; alexandergovern a b; boxcox_llf 1.0 p; yeojohnson_llf 1.0 a; lmoment a;
        false_discovery_control u; ks_2samp a b; wilcoxon a b; epps_singleton_2samp a b; ansari a b;
        mood a b""",
    "scipy.signal": """
        convolve a h; fftconvolve a h; oaconvolve a h; correlate a h; convolve2d m k;
        correlate2d m k; detrend a; hilbert a; lfilter h d a; filtfilt h d a; sosfilt sos a;
        medfilt a 3; wiener a 3; savgol_filter a 5 2; resample a 10; decimate long 2; upfirdn h a;
        periodogram a; welch a; spectrogram long; coherence a b; csd a b; freqz h; find_peaks a;
        order_filter a h 1; lombscargle grid p p; envelope a; tf2zpk h h; bilinear h h""",
    "scipy.ndimage": """
        gaussian_filter m 1.0; uniform_filter m 3; median_filter m 3; sobel m; laplace m;
        shift m 1.0; rotate m 30.0; zoom m 2.0; label labels; binary_dilation mask;
        binary_erosion mask; center_of_mass m; distance_transform_edt mask;
        map_coordinates m points; sum_labels m; maximum_filter m 3; convolve m k;
        gaussian_gradient_magnitude m 1.0; histogram m -2 2 5; affine_transform m eye""",
    "scipy.cluster.vq": "whiten m; vq m m; kmeans m 2; kmeans2 m 2",
    "scipy.cluster.hierarchy": """
        linkage m; ward m; fcluster tree 2.0; cophenet tree; leaves_list tree; maxdists tree;
        inconsistent tree; num_obs_linkage tree; is_valid_linkage tree""",
    "scipy.spatial.distance": "pdist m; cdist m m; squareform condensed",
    "scipy.optimize": "rosen p; rosen_der p; rosen_hess p",
    "scipy.integrate": "trapezoid a; simpson a; cumulative_trapezoid a",
    "scipy.fft": "fft a; rfft a; dct a; fftshift a",
    "sklearn.metrics": """
        accuracy_score y z; balanced_accuracy_score y z; f1_score y z; precision_score y z;
        recall_score y z; jaccard_score y z; hamming_loss y z; zero_one_loss y z;
        confusion_matrix y z; multilabel_confusion_matrix y z; precision_recall_fscore_support y z;
        cohen_kappa_score y z; matthews_corrcoef y z; log_loss y s; roc_curve y s;
        roc_auc_score y s; precision_recall_curve y s; average_precision_score y s;
        brier_score_loss y s; det_curve y s; d2_brier_score y s; d2_log_loss_score y s;
        mean_absolute_error t w; mean_squared_error t w; root_mean_squared_error t w;
        median_absolute_error t w; max_error t w; r2_score t w; explained_variance_score t w;
        mean_absolute_percentage_error t w; d2_absolute_error_score t w; d2_tweedie_score t w;
        mean_pinball_loss t w; mean_tweedie_deviance t w; mean_gamma_deviance t w;
        mean_poisson_deviance t w; mean_squared_log_error t w; root_mean_squared_log_error t w""",
    "sklearn.metrics.pairwise": """
        additive_chi2_kernel Z Z; chi2_kernel Z Z; cosine_distances X Z; cosine_similarity X Z;
        euclidean_distances X Z; laplacian_kernel X Z; linear_kernel X Z; manhattan_distances X Z;
        paired_cosine_distances X Z; paired_euclidean_distances X Z; paired_manhattan_distances X Z;
        pairwise_distances X Z; pairwise_kernels X Z; polynomial_kernel X Z; rbf_kernel X Z;
        sigmoid_kernel X Z""",
}

#: Estimators of scikit-learn by package: with their arguments, and what they are fitted to.
ESTIMATORS = {
    "sklearn.preprocessing": """
        StandardScaler() X; MinMaxScaler() X; MaxAbsScaler() X; Normalizer() X; Binarizer() X;
        PolynomialFeatures() X; LabelEncoder() y; LabelBinarizer() y""",
    "sklearn.decomposition": "PCA(2, svd_solver='full') X",
    "sklearn.linear_model": """
        Ridge(solver='svd') X t; RidgeCV() X t; RidgeClassifier(solver='svd') X y;
        LogisticRegression() X y""",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis() X y",
    "sklearn.naive_bayes": "GaussianNB() X y",
    "sklearn.mixture": "GaussianMixture(2, init_params='random', random_state=0) X",
    "sklearn.kernel_approximation": "Nystroem(n_components=3, random_state=0) X",
}

#: What a call comes to, in the order of the tables; another error is written as it is.
WORKS, OF_NUMPY = "work", "work, and return NumPy arrays"
REASONS = {
    "item assignment": "assign to elements, also by `array_api_extra.at`",
    "complex": "need complex numbers",
    "'linalg'": "need `linalg`",
    "read-only": "write to the NumPy array that they make of a tensor",
    "Multiple namespaces": "mix tensors with NumPy arrays of their own",
}

Trial = tuple[str, str, Callable[..., Any], list[Any]]


def main(arguments: list[str]) -> int:
    """Write the page, or check it; return the exit status."""
    warnings.simplefilter("ignore")
    trials = list(all_trials())
    if "--check" not in arguments:
        PAGE.write_text(inserted(tables([(p, n, outcome(f, args)) for p, n, f, args in trials])))
        print(f"wrote docs/{PAGE.name}")
        return 0
    if VERSIONS not in PAGE.read_text():
        print(f"docs/{PAGE.name} is of other versions than {VERSIONS}")
        return 2
    if arguments[-1].isdecimal():
        trials = random.Random(0).sample(trials, int(arguments[-1]))
    known = written()
    stale = [(n, found) for p, n, f, a in trials if known.get((p, n)) != (found := outcome(f, a))]
    for name, found in stale:
        print(f"{name}: {found}; run scripts/interoperation_table.py")
    return bool(stale)


# ---- trials ----


def all_trials() -> Iterator[Trial]:
    """Return every function, with its package and its arguments."""
    for package, text in FUNCTIONS.items():
        module = importlib.import_module(package)
        for line in entries(text):
            name, *words = line.split()
            yield package, name, getattr(module, name), [argument(w) for w in words]
    for package, text in ESTIMATORS.items():
        module = importlib.import_module(package)
        for line in entries(text):
            made, words = line.rsplit(")", 1)
            name = made.partition("(")[0]
            yield package, name, fitted(module, made + ")"), [argument(w) for w in words.split()]


def entries(text: str) -> list[str]:
    """Return the entries of a list with semicolons."""
    return [" ".join(entry.split()) for entry in text.split(";")]


def argument(word: str) -> Any:
    """Return the data of that name, or the number."""
    return DATA[word] if word in DATA else ast.literal_eval(word)


def fitted(module: Any, made: str) -> Callable[..., Any]:
    """Return a function that makes an estimator, fits it, and gives what it predicts or makes."""

    def call(*data: Any) -> Any:
        estimator = eval(made, dict(vars(module)))  # an entry of the table above
        estimator.fit(*data)
        use = estimator.transform if hasattr(estimator, "transform") else estimator.predict
        found = use(data[0])
        # The sign of a component is open.
        return abs(found) if type(estimator).__name__ == "PCA" else found

    return call


def outcome(function: Callable[..., Any], args: list[Any]) -> str:
    """Return what comes of a call with tensors."""
    seed = {"rng": 0} if function.__name__ in ("kmeans", "kmeans2") else {}
    wanted = leaves(function(*args, **seed))
    given = [pyrite.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    try:
        with sklearn.config_context(array_api_dispatch=True):
            found = leaves(function(*given, **seed))
    except Exception as error:
        return reason(error)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(host(one), host(other), rtol=1e-3, atol=1e-4)
    return OF_NUMPY if any(isinstance(x, np.ndarray | np.generic) for x in found) else WORKS


def leaves(result: Any) -> list[Any]:
    """Return the arrays and numbers of a result."""
    if isinstance(result, list | tuple):
        return [leaf for part in result for leaf in leaves(part)]
    if hasattr(result, "__dict__") and not hasattr(result, "shape"):
        fields = sorted(vars(result).items())
        return [x for name, part in fields if name[0] != "_" for x in leaves(part)]
    is_number = isinstance(result, int | float) or hasattr(result, "shape")
    return [result] if is_number else []


def host(x: Any) -> Any:
    """Return a tensor, an array or a number as an array."""
    return x.numpy() if isinstance(x, pyrite.Tensor) else np.asarray(x)


def reason(error: Exception) -> str:
    """Return why a call fails, in few words."""
    text = str(error)
    known = next((short for part, short in REASONS.items() if part in text), None)
    return known or f"{type(error).__name__}: {' '.join(text.split())[:80]}"


# ---- the page ----


def tables(results: list[tuple[str, str, str]]) -> str:
    """Return a table for each package: what its functions come to, and which do."""
    count = sum(found in (WORKS, OF_NUMPY) for _, _, found in results)
    lines = [f"{VERSIONS}: {count} of {len(results)} work."]
    for package in dict.fromkeys(p for p, _, _ in results):
        lines += ["", f"### {package}", "", "| these functions | |", "| --- | --- |"]
        here = [(name, found) for p, name, found in results if p == package]
        order = [WORKS, OF_NUMPY, *REASONS.values()]
        for kind in sorted(
            {f for _, f in here},
            key=lambda f: (f not in order, order.index(f) if f in order else 0),
        ):
            names = ", ".join(f"`{name}`" for name, found in here if found == kind)
            lines.append(f"| {kind} | {names} |")
    return "\n".join(lines)


def inserted(made: str) -> str:
    """Return the text of the page with what was made between its markers."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def written() -> dict[tuple[str, str], str]:
    """Return what the page says, by package and function."""
    found: dict[tuple[str, str], str] = {}
    package = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("### "):
            package = line[4:]
        elif (row := re.fullmatch(r"\| (.+?) \| (`.+`) \|", line)) is not None:
            found |= {(package, name): row[1] for name in re.findall(r"`([^`]+)`", row[2])}
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
