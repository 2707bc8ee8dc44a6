# SPDX-License-Identifier: MIT
"""hobd encode with sounds: embeddings beside an independent computation and beside llama.cpp's, the same bits on every CPU, and the sentence for
each broken file."""
import array
import io
import json
import math
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, HOBD, mktiny
from mediafiles import wav
from mmprojfiles import F32, STRING, TENSOR_F16, TENSOR_F32, TENSOR_Q8_0, U32
from mmprojfiles import Encoder as ImageEncoder

np = pytest.importorskip("numpy", reason="python3-numpy is not installed")
from mmprojsounds import RATE, SoundEncoder, spectrogram  # noqa: E402

pytestmark = pytest.mark.skipif(not (BUILD / "daemon" / "hobd-decode").exists(), reason="built without images and sounds")
CPUS = [{"HOB_CPU": "scalar"}, {"HOB_CPU": "avx2"}, {"HOB_CPU": "avx512"}, {}]
PROJECTORS = ["ultravox", "qwen2a", "voxtral"]


def sixteen_bits(values):
    return array.array("h", (round(32767 * max(-1, min(1, v))) for v in values))


def tone(n):
    return sixteen_bits(0.5 * math.sin(2 * math.pi * 440 * i / RATE) for i in range(n))


def noise(n):
    r = random.Random(3)
    return sixteen_bits(r.uniform(-0.3, 0.3) for _ in range(n))


def speech_like(n):
    """Syllables of a voice whose pitch goes up and down."""
    out, phase = [], 0.0
    for i in range(n):
        t = i / RATE
        phase += 2 * math.pi * (140 + 60 * math.sin(4.4 * t)) / RATE
        loud = 0.12 * max(0.0, math.sin(15.7 * t)) ** 2
        out.append(loud * sum(math.sin(k * phase) / k * (1 + math.sin(k + 3 * t)) for k in range(1, 20)) if loud else 0.0)
    return sixteen_bits(out)


SOUNDS = {"tone": lambda: tone(5 * RATE), "noise": lambda: noise(10 * RATE + 77), "speech": lambda: speech_like(6 * RATE + 5),
          "silence": lambda: array.array("h", bytes(6 * RATE)), "45 s": lambda: speech_like(4 * RATE) + noise(41 * RATE)}


def encode(mmproj, sound, *args, env=None, check=0):
    r = subprocess.run([HOBD, "encode", "--mmproj", mmproj, "-", "--json", *args], input=wav(sound.tobytes()), capture_output=True, timeout=120,
                       env={**os.environ, **(env or {})})
    assert r.returncode == check, r.stderr
    return json.loads(r.stdout) if check == 0 else r.stderr.decode()


def values(mmproj, sound, tmp_path, *args):
    out = tmp_path / "out.f32"
    y = encode(mmproj, sound, "-o", out, *args)
    got = np.fromfile(out, dtype=np.float32).reshape(y["items"], y["dim"])
    assert list(got.ravel()[:4]) == pytest.approx(y["first"], abs=1e-12)
    return y, got


def floats(sound):
    return np.array(sound) / 32768


def largest_error(got, want):
    assert got.shape == want.shape
    return abs(got - want).max() / abs(want).max()


@pytest.mark.parametrize("projector, shape", [
    ("ultravox", {"bins": 128}), ("ultravox", {"stack": 7, "dim": 32, "heads": 4, "kind": TENSOR_F16}),
    ("qwen2a", {"blocks": 1, "bins": 128}), ("qwen2a", {"out": 17, "kind": TENSOR_F16, "taps": TENSOR_F32}),
    ("voxtral", {"stack": 4}), ("voxtral", {"stack": 1, "hidden": 50, "ffn": 13})])
def test_embeddings_are_those_of_the_reference(tmp_path, projector, shape):
    e = SoundEncoder(projector, **shape)
    sound = noise(3 * RATE)
    y, got = values(e.write(tmp_path / "a.gguf"), sound, tmp_path)
    assert (y["projector"], y["items"], y["dim"], y["chunks"]) == (projector, len(got), e.out, 1)
    assert len(got) == {"ultravox": 1500 // e.stack, "qwen2a": 750, "voxtral": 1500 // e.stack}[projector]
    assert largest_error(got, e.embeddings(floats(sound))) < 1e-5


@pytest.mark.parametrize("name", SOUNDS)
def test_sounds(tmp_path, name):
    e = SoundEncoder("ultravox", blocks=1, stack=50)
    sound = SOUNDS[name]()
    y, got = values(e.write(tmp_path / "a.gguf"), sound, tmp_path)
    assert y["chunks"] == 1 + (name == "45 s") and y["items"] == 30 * y["chunks"]
    assert largest_error(got, e.embeddings(floats(sound))) < 1e-5


@pytest.mark.parametrize("n", [1, 2, 160, 199, 200, 201, 202, 400, 479839, 479840, 480000])
def test_lengths(tmp_path, n):
    """Sounds shorter than half a window, and about 30 s."""
    e = SoundEncoder("qwen2a", blocks=1, dim=8, ffn=8, out=4)
    sound = noise(n)
    y, got = values(e.write(tmp_path / "a.gguf"), sound, tmp_path)
    assert y["chunks"] == 1 + (n >= 479840)
    assert largest_error(got, e.embeddings(floats(sound))) < 1e-5


def test_voxtral_as_llama_cpp_computes_it(tmp_path):
    e = SoundEncoder("voxtral", stack=4)
    sound = tone(RATE)
    path = e.write(tmp_path / "a.gguf")
    y, got = values(path, sound, tmp_path, "--pooled")
    assert y["items"] == 187 and largest_error(got, e.embeddings(floats(sound), pooled=True)) < 1e-5
    other = encode(path, sound)
    assert other["items"] == 375 and other["identity"] != y["identity"]


def test_quantized_weights_differ_by_the_quantized_activations_alone(tmp_path):
    e = SoundEncoder("ultravox", kind=TENSOR_Q8_0, dim=64, ffn=96, hidden=64, out=32)
    sound = noise(RATE)
    _, got = values(e.write(tmp_path / "a.gguf"), sound, tmp_path)
    assert 1e-6 < largest_error(got, e.embeddings(floats(sound))) < 5e-2


@pytest.mark.parametrize("kind", [TENSOR_F32, TENSOR_F16, TENSOR_Q8_0])
@pytest.mark.parametrize("projector", PROJECTORS)
def test_the_same_bits_everywhere(tmp_path, projector, kind):
    """Of every CPU variant and number of threads."""
    e = SoundEncoder(projector, dim=96, ffn=160, heads=3, hidden=96, blocks=1, kind=kind, out=33)
    path, sound = e.write(tmp_path / "a.gguf"), noise(RATE + 1)
    assert len({encode(path, sound, "-t", str(t), env=cpu)["digest"] for cpu in CPUS for t in (1, 2, 3)}) == 1


def test_the_spectrogram_of_the_reference():
    """Of a tone of 1000 Hz: its bin is the loudest, and bins far away are at the floor, 8 powers of ten below."""
    tone = [math.sin(2 * math.pi * 1000 * i / RATE) for i in range(RATE)]
    mel = spectrogram(tone, 80)[0]
    assert mel.shape == (3000, 80) and mel[50].argmax() in (26, 27, 28) and mel[50, 70] == mel.min() == mel[2000].max()
    assert mel.max() - mel.min() == pytest.approx(2)


# --- llama.cpp ---

@pytest.fixture(scope="session")
def peer(tmp_path_factory):
    """Runs peer-mtmd.c with the libmtmd of $HOB_PEER, a directory as of peer_types.py; sees its folder models as /models."""
    directory = os.environ.get("HOB_PEER")
    if not directory or not shutil.which("cc"):
        pytest.skip("no libmtmd (HOB_PEER) or no C compiler")
    models, run = Path(directory) / "models", Path(directory) / "run"
    subprocess.run(["cc", "-O1", "-o", models / "peer-mtmd", Path(__file__).parent / "peer-mtmd.c", "-ldl"], check=True)
    mktiny(models / "peer-mtmd-text.gguf", "--dim", 64, "--tokenizer", "llama", "--type", "F32")

    def embeddings(encoder, sounds):
        encoder.write(models / "peer-mtmd.gguf")
        files = []
        for i, sound in enumerate(sounds):
            floats(sound).astype(np.float32).tofile(models / f"peer-mtmd-{i}.in")
            files += [f"/models/peer-mtmd-{i}.in", f"/models/peer-mtmd-{i}.out"]
        subprocess.run([run, "/models/peer-mtmd", "/models/peer-mtmd.gguf", "/models/peer-mtmd-text.gguf", "2", *files], check=True, timeout=300)
        return models / "peer-mtmd.gguf", [np.fromfile(models / f"peer-mtmd-{i}.out", dtype=np.float32).reshape(-1, 64) for i in range(len(sounds))]
    yield embeddings
    for path in models.glob("peer-mtmd*"):
        path.unlink()


@pytest.mark.parametrize("projector", PROJECTORS)
def test_llama_cpp_gives_the_same(tmp_path, peer, projector):
    """Its tokens of a stack are as here only where it rounds lengths so: as with the widths of trained files."""
    e = SoundEncoder(projector, bins=80 if projector == "qwen2a" else 128, dim=40, ffn=96, hidden=64, out=64, stack=4 if projector == "voxtral" else 8)
    sounds = [SOUNDS[name]() for name in SOUNDS]
    path, theirs = peer(e, sounds)
    for sound, want in zip(sounds, theirs):
        _, got = values(path, sound, tmp_path, *(["--pooled"] if projector == "voxtral" else []))
        assert largest_error(got, want) <= 1e-3


# --- files with two encoders ---

def both(tmp_path):
    """As Qwen2.5-Omni's: the keys and tensors of an encoder of images and of one of sounds."""
    e, images = SoundEncoder("qwen2a"), ImageEncoder("gemma3")
    sound, image = dict(e.keys), dict(images.keys)
    e.keys = {**images.keys, **e.keys, "clip.audio.projector_type": sound["clip.projector_type"],
              "clip.vision.projector_type": image["clip.projector_type"]}
    del e.keys["clip.projector_type"]
    e.tensors = {**e.tensors, **images.tensors}
    return e.write(tmp_path / "both.gguf")


def test_a_file_with_two_encoders(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    path = both(tmp_path)
    y = encode(path, tone(500))
    assert y["projector"] == "qwen2a" and y["digest"] == encode(SoundEncoder("qwen2a").write(tmp_path / "a.gguf"), tone(500))["digest"]
    png = io.BytesIO()
    Image.new("RGB", (12, 12), (1, 2, 3)).save(png, "PNG")
    r = subprocess.run([HOBD, "encode", "--mmproj", path, "-", "--json"], input=png.getvalue(), capture_output=True, timeout=60)
    assert r.returncode == 0 and json.loads(r.stdout)["projector"] == "gemma3", r.stderr


def test_the_names_of_qwen_omni(tmp_path):
    e = SoundEncoder("qwen2a")
    e.keys["clip.projector_type"] = (STRING, "qwen2.5o")
    assert encode(e.write(tmp_path / "a.gguf"), tone(500))["projector"] == "qwen2a"


# --- what is refused ---

def key(name, *value):
    def change(e):
        if value:
            e.keys[name] = value
        else:
            del e.keys[name]
    return change


def shape(name, dims, n):
    def change(e):
        e.tensors[name][0] = dims
        e.tensors[name][2] = [0.5] * n
    return change


def without(name):
    return lambda e: e.tensors.pop(name)


def extra(e):
    e.tensors["a.blk.0.attn_q_norm.weight"] = [[24], TENSOR_F32, [1.0] * 24]


A = "clip.audio."
BROKEN = [
    (key("general.architecture", STRING, "llama"), "architecture 'llama': this is not an encoder (an mmproj file has 'clip')"),
    (key("clip.projector_type", STRING, "klingon\n"), "projector type 'klingon?' is not supported for sounds; supported: ultravox, qwen2a, voxtral"),
    (key("clip.projector_type", STRING, "gemma3"), "projector type 'gemma3' is not supported for sounds"),
    (key("clip.projector_type"), "key 'clip.projector_type' is missing"),
    (key("clip.has_audio_encoder", U32, 1), "key 'clip.has_audio_encoder'"),
    (key(A + "num_mel_bins"), "key 'clip.audio.num_mel_bins' is missing"),
    (key(A + "num_mel_bins", U32, 0), "key 'clip.audio.num_mel_bins' is 0, not a number from 1 to 512"),
    (key(A + "num_mel_bins", U32, 128), "tensor 'a.conv1d.1.weight' is 3 x 80 x 24 x 1, not 3 x 128 x 24 x 1"),
    (key(A + "embedding_length", U32, 32), "tensor 'a.conv1d.1.weight' is 3 x 80 x 24 x 1, not 3 x 80 x 32 x 1"),
    (key(A + "attention.head_count", U32, 5), "rows of 24 values cannot be divided into 5 heads of at most 256 values"),
    (key(A + "attention.layer_norm_epsilon", F32, -1.0), "key 'clip.audio.attention.layer_norm_epsilon' is -1"),
    (key(A + "block_count", U32, 3), "tensor 'a.blk.2.ln1.weight' is missing"),
    (key(A + "block_count", U32, 1), "tensor 'a.blk.1.ln1.weight' has no place in this sound encoder"),
    (key(A + "projector.stack_factor"), "key 'clip.audio.projector.stack_factor' is missing"),
    (key(A + "projector.stack_factor", U32, 65), "key 'clip.audio.projector.stack_factor' is 65, not a number from 1 to 64"),
    (key(A + "projector.stack_factor", U32, 7), "tensor 'mm.a.norm_pre.weight' is 192 x 1 x 1 x 1, not 168 x 1 x 1 x 1"),
    (without("a.conv1d.1.bias"), "tensor 'a.conv1d.1.bias' is missing"),
    (without("a.post_ln.weight"), "tensor 'a.post_ln.weight' is missing"),
    (without("mm.a.norm_mid.weight"), "tensor 'mm.a.norm_mid.weight' is missing"),
    (shape("a.position_embd.weight", [24, 1499], 24 * 1499), "tensor 'a.position_embd.weight' is 24 x 1499 x 1 x 1, not 24 x 1500 x 1 x 1"),
    (shape("a.conv1d.1.weight", [5, 80, 24], 9600), "tensor 'a.conv1d.1.weight' is 5 x 80 x 24 x 1, not 3 x 80 x 24 x 1"),
    (shape("mm.a.mlp.1.weight", [192, 55], 192 * 55), "tensor 'mm.a.mlp.1.weight' has 55 rows, which are no two halves"),
    (extra, "tensor 'a.blk.0.attn_q_norm.weight' has no place in this sound encoder"),
]


@pytest.mark.parametrize("change, says", BROKEN, ids=[says for _, says in BROKEN])
def test_a_broken_file_is_a_sentence(tmp_path, change, says):
    e = SoundEncoder("ultravox")
    change(e)
    path = e.write(tmp_path / "a.gguf")
    error = encode(path, tone(500), check=1)
    assert error.startswith(f"hobd encode: {path}: {says}") and error.count("\n") == 1


def test_quantized_convolutions_are_refused(tmp_path):
    e = SoundEncoder("qwen2a", dim=32, heads=2)
    e.tensors["a.conv1d.2.weight"] = [[3, 32, 32], TENSOR_F32, [0.5] * 3072]
    path = e.write(tmp_path / "a.gguf")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"a.conv1d.2.weight") + len("a.conv1d.2.weight") + 4 + 24
    assert whole[at:at + 4] == bytes(4)
    whole[at] = 2  # Q4_0; rows of 3 values are no blocks
    path.write_bytes(whole)
    assert "a.conv1d.2.weight" in encode(path, tone(500), check=1)


def test_weights_that_are_too_large(tmp_path):
    e = SoundEncoder("voxtral", stack=4)
    e.tensors["a.blk.0.ffn_down.weight"][2][5] = 3e38
    e.tensors["a.blk.0.ffn_up.bias"][2] = [1e30] * e.ffn
    error = encode(e.write(tmp_path / "a.gguf"), tone(500), check=1)
    assert error == "hobd encode: the sound encoder computes values that are no numbers: its weights are damaged\n"


def test_the_wrong_kind_of_file(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    png = io.BytesIO()
    Image.new("RGB", (12, 12)).save(png, "PNG")
    sounds, images = SoundEncoder("ultravox").write(tmp_path / "a.gguf"), ImageEncoder("gemma3").write(tmp_path / "b.gguf")
    r = subprocess.run([HOBD, "encode", "--mmproj", sounds, "-"], input=png.getvalue(), capture_output=True, timeout=60)
    assert r.returncode == 1 and r.stderr.decode() == f"hobd encode: {sounds}: this encoder takes sounds, not images\n"
    assert encode(images, tone(500), check=1) == f"hobd encode: {images}: this encoder takes images, not sounds\n"


def test_a_sound_without_samples(tmp_path):
    path = SoundEncoder("ultravox").write(tmp_path / "a.gguf")
    error = encode(path, array.array("h"), check=1)
    assert error.startswith("hobd encode: -: ") and error.count("\n") == 1


def test_what_is_printed_for_people(tmp_path):
    path = SoundEncoder("ultravox").write(tmp_path / "a.gguf")
    r = subprocess.run([HOBD, "encode", "--mmproj", path, "-"], input=wav(tone(31 * RATE).tobytes()), capture_output=True, timeout=60)
    lines = r.stdout.decode().splitlines()
    assert r.returncode == 0 and lines[0].startswith("ultravox, identity ") and len(lines) == 4
    assert lines[1].startswith("374 items of 20 values, sound in 2 chunks, digest ")
