# SPDX-License-Identifier: MIT
"""The tiny models of each architecture, and what they are asked: shared by test_architectures.py and peer_architectures.py."""
VARIANTS = ["llama", "llama-freqs", "llama-biases", "llama-yarn", "qwen2", "qwen2vl", "qwen3", "phi3", "phi3-short", "smollm3",
            "granite", "olmo2", "olmo3", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4-dense", "gemma4-experts", "mixtral", "qwen2moe", "qwen3moe", "gpt-oss",
            "ernie4_5", "exaone", "gemma", "glm4", "internlm2", "seed_oss",
            "arcee", "cohere2", "command-r", "command-r-plus", "exaone4", "exaone4-window", "hunyuan-dense", "minicpm", "mistral3", "nemotron",
            "stablelm", "stablelm-parallel", "starcoder2",
            "apertus", "bitnet", "chatglm", "falcon", "gptneox", "gptneox-serial", "phi2", "qwen3vl",
            "glm4moe", "glm4moe-normed", "granitemoe", "ernie4_5-moe", "hunyuan-moe", "bailingmoe2", "olmoe", "dots1", "deepseek",
            "qwen3vlmoe", "deepseek2", "deepseek2-lite", "deepseek2-older", "minicpm3", "mistral4",
            "phimoe", "smallthinker", "smallthinker-softmax", "llama4", "llama4-every", "afmoe", "minimax-m2", "gpt2", "starcoder",
            "bailingmoe", "codeshell", "jais2", "pangu-embedded", "exaone-moe",
            "lfm2", "lfm2moe", "mamba2", "granitehybrid", "granitehybrid-experts", "falcon-h1",
            "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe", "qwen3next"]
RECURRENT = VARIANTS[VARIANTS.index("lfm2"):]  # with layers that have a state
NEAR = ["smallthinker-near", "llama4-near"]  # llama.cpp takes their windows of 70 tokens for those of FAR: not compared with it
FAR = {"smallthinker": 4096, "llama4": 8192, "llama4-every": 8192}
WINDOWS = ["olmo3", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4-dense", "gemma4-experts", "gpt-oss", "cohere2", "exaone4-window", "afmoe", "exaone-moe", *NEAR, *FAR]  # whose layers have windows: of 70 tokens, or FAR

LEARNED = ["gpt2", "starcoder"]  # positions

# general.architecture, where it is not the variant's name.
ARCH = {"olmo3": "olmo2", "mixtral": "llama"}
HYPHENS = ["command-r", "ernie4_5-moe", "exaone-moe", "falcon-h1", "gpt-oss", "hunyuan-dense", "hunyuan-moe", "minimax-m2", "pangu-embedded"]  # are in these; in other variants they end it

# About 20 and 300 tokens: inside the windows, and far beyond them.
PIECE = "the little cat and the red hat sat on a mat; "  # 22 tokens
PROMPTS = ["Once upon a time", PIECE * 9 + "then"]
TOKENS = 64


def arch(variant):
    name = next((h for h in HYPHENS if variant.startswith(h)), variant.split("-")[0])
    return ARCH.get(name, name)


def arguments(variant):
    """Of mktiny."""
    args = ["--type", "F32", "--seed", 3, "--tokenizer", "llama", "--arch", variant.removesuffix("-freqs").removesuffix("-short")]
    if variant in FAR:
        args += ["--ctx", context(variant)]
    return args + ["--rope-freqs"] if variant.endswith("-freqs") else args


def context(variant):
    """Phi's factors for short contexts are for up to 256."""
    return 256 if variant.endswith("-short") else FAR.get(variant, 0) + 512


def prompts(variant):
    """Where windows are FAR, the last one ends just before that: the answer passes it."""
    if variant in FAR:
        return PROMPTS + [PIECE * ((FAR[variant] - 30) // 22) + "then"]
    return PROMPTS[:1] if variant.endswith("-short") else PROMPTS
