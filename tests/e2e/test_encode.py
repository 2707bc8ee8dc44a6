# SPDX-License-Identifier: MIT
"""hobd encode: embeddings of images beside an independent computation, the same bits on every CPU, and the sentence for each broken file."""
import array
import io
import json
import math
import os
import random
import struct
import subprocess

import pytest
from conftest import BUILD, DATA, HOBD
from mmprojfiles import ARRAY, BOOL, F32, I32, STRING, TENSOR_F16, TENSOR_F32, TENSOR_Q8_0, U32, Encoder

Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
pytestmark = pytest.mark.skipif(not (BUILD / "daemon" / "hobd-decode").exists(), reason="built without images and sounds")

GEMMA = DATA / "models" / "mmproj-tinygemma3.gguf"
CPUS = [{"HOB_CPU": "scalar"}, {"HOB_CPU": "avx2"}, {"HOB_CPU": "avx512"}, {}]


def png(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def noise(width, height, seed=1):
    return Image.frombytes("RGB", (width, height), random.Random(seed).randbytes(width * height * 3))


def encode(mmproj, image, *args, env=None, check=0):
    r = subprocess.run([HOBD, "encode", "--mmproj", mmproj, "-", "--json", *args], input=png(image), capture_output=True, timeout=120,
                       env={**os.environ, **(env or {})})
    assert r.returncode == check, r.stderr
    return json.loads(r.stdout) if check == 0 else r.stderr.decode()


def values(mmproj, image, tmp_path, *args):
    out = tmp_path / "out.f32"
    y = encode(mmproj, image, "-o", out, *args)
    floats = array.array("f", out.read_bytes())
    assert len(floats) == y["items"] * y["dim"] and list(floats[:4]) == pytest.approx(y["first"], abs=1e-12)
    return y, floats


def largest_error(encoder, floats, image):
    want = [x for row in encoder.embeddings(image.tobytes()) for x in row]
    assert len(floats) == len(want)
    return max(abs(a - b) for a, b in zip(floats, want)) / max(map(abs, want))


@pytest.mark.parametrize("kind", [TENSOR_F32, TENSOR_F16])
@pytest.mark.parametrize("shape", [
    {"projector": "gemma3"},
    {"projector": "gemma3", "pool": 2, "image": 30, "patch": 7},  # 4 patches a side, 2 pixels left over
    {"projector": "gemma3", "image": 24, "gelu": False, "dim": 40, "heads": 4, "out": 17},  # more than 32 rows: several blocks of KV
    {"projector": "mlp"},
    {"projector": "mlp", "gelu": False, "blocks": 3, "ffn": 24},
    {"projector": "mlp", "blocks": 1},  # no block is computed
    {"projector": "internvl", "pool": 3},
    {"projector": "internvl", "image": 16, "pool": 2, "head_norms": True},
])
def test_embeddings_are_those_of_the_reference(tmp_path, shape, kind):
    e = Encoder(kind=kind, **shape)
    image = noise(e.image, e.image)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    n = e.side // e.pool
    assert (y["projector"], y["items"], y["dim"], y["resized"]) == (e.projector, n * n, e.out, [e.image, e.image])
    assert largest_error(e, floats, image) < 1e-5


# Sizes that need no resizing.
SIZED = [
    ({"projector": "pixtral", "silu": True, "heads": 3}, (28, 20), None),
    ({"projector": "pixtral", "merge": True, "pool": 2, "heads": 3}, (32, 24), None),
    ({"projector": "lfm2", "pool": 2, "image": 64, "patch": 16}, (256, 288), None),
    ({"projector": "qwen2vl_merger", "gelu": False, "heads": 3}, (32, 24), [4, 3]),
    ({"projector": "qwen2.5vl_merger", "silu": True, "heads": 3, "image": 28, "patch": 28}, (280, 224), [5, 4]),
]


@pytest.mark.parametrize("kind", [TENSOR_F32, TENSOR_F16])
@pytest.mark.parametrize("shape, size, grid", SIZED)
def test_embeddings_of_images_of_any_size(tmp_path, shape, size, grid, kind):
    e = Encoder(kind=kind, **shape)
    image = noise(*size)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    want = [x for row in e.embeddings(image.tobytes(), size) for x in row]
    assert (y["resized"], y["tiles"], y["grid"]) == (list(size), [0, 0], grid or [0, 0]) and len(floats) == len(want)
    assert max(abs(a - b) for a, b in zip(floats, want)) < 1e-5 * max(map(abs, want))


def test_windows_in_several_segments(tmp_path):
    """A window's rows in two slices and in two segments of attention (512 rows)."""
    e = Encoder("qwen2.5vl_merger", image=14, patch=14, dim=8, ffn=8, heads=1, silu=True)
    image = noise(364, 336)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    want = [x for row in e.embeddings(image.tobytes(), image.size) for x in row]
    assert y["items"] == 13 * 12 and max(abs(a - b) for a, b in zip(floats, want)) < 1e-5 * max(map(abs, want))


def own_size(size, step, least, most):
    """Each edge the nearest number of steps; then smaller or larger if the area is not within the limits."""
    edges = [max(step, math.floor(edge / step + 0.5) * step) for edge in size]
    area = size[0] * size[1]
    if math.prod(edges) > most:
        return tuple(max(step, math.floor(edge / math.sqrt(area / most) / step) * step) for edge in size)
    if math.prod(edges) < least:
        return tuple(math.ceil(edge * math.sqrt(least / area) / step) * step for edge in size)
    return tuple(edges)


@pytest.mark.parametrize("size", [(3, 5), (40, 31), (97, 201), (1, 30), (333, 129)])
@pytest.mark.parametrize("projector, step, items", [("pixtral", 8, (8, 1024)), ("qwen2vl_merger", 16, (8, 4096)), ("lfm2", 16, (64, 256))])
def test_own_sizes_are_resized_as_pillow_does(tmp_path, size, projector, step, items):
    mmproj = Encoder(projector, image=8, patch=8, dim=8, ffn=8, blocks=1, pool=2 if projector == "lfm2" else 1).write(tmp_path / "a.gguf")
    image = noise(*size)
    y = encode(mmproj, image)
    edges = own_size(size, step, items[0] * step ** 2, items[1] * step ** 2)
    if projector == "lfm2":
        same, resized = image.resize(edges, Image.BILINEAR), list(edges)
    else:
        same, resized = in_the_middle(image, *edges, Image.BICUBIC)
    assert y["resized"] == resized and encode(mmproj, same)["digest"] == y["digest"]


def test_pixels_of_an_image_by_the_file(tmp_path):
    e = Encoder("qwen2vl_merger", blocks=1)
    e.keys["clip.vision.image_min_pixels"] = (U32, 500)
    e.keys["clip.vision.image_max_pixels"] = (U32, 1000)
    mmproj = e.write(tmp_path / "a.gguf")
    for size in ((7, 9), (30, 20), (300, 20)):
        assert encode(mmproj, noise(*size))["grid"] == [n // 8 for n in own_size(size, 8, 500, 1000)]


@pytest.mark.parametrize("algorithm, how", [(None, Image.BILINEAR), ("bicubic", Image.BICUBIC), ("lanczos", Image.LANCZOS)])
def test_large_images_in_tiles_of_512_pixels(tmp_path, algorithm, how):
    """Tile by tile the same bits as an image of one tile."""
    e = Encoder("lfm2", image=64, patch=16, pool=2, dim=16, ffn=16, blocks=1)
    if algorithm:
        e.keys["clip.vision.image_resize_algo"] = (STRING, algorithm)
    mmproj = e.write(tmp_path / "a.gguf")
    image = noise(900, 610)
    y, floats = values(mmproj, image, tmp_path)
    cut, resized = in_the_middle(image, 1536, 1024, how)
    whole = image.resize(own_size(image.size, 32, 64 * 1024, 256 * 1024), how)
    tiles = [cut.crop((512 * i, 512 * j, 512 * i + 512, 512 * j + 512)) for j in range(2) for i in range(3)] + [whole]
    assert (y["tiles"], y["resized"]) == ([3, 2], resized)
    alone = array.array("f")
    for tile in tiles:
        alone += values(mmproj, tile, tmp_path)[1]
    assert alone == floats


def test_quantized_weights_differ_by_the_quantized_activations_alone(tmp_path):
    e = Encoder("mlp", kind=TENSOR_Q8_0, dim=64, ffn=96, hidden=64, out=32)
    image = noise(12, 12)
    _, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    assert 1e-6 < largest_error(e, floats, image) < 3e-2


def test_keys_and_tensors_that_may_be_absent(tmp_path):
    """A feature layer; no second product; the older names of the FFN's tensors; a file without a class."""
    e = Encoder("mlp", blocks=3)
    e.keys["clip.vision.feature_layer"] = ((ARRAY, I32), [3])
    e.blocks = 3
    for i in range(3):
        for part in ("weight", "bias"):
            up, down = f"v.blk.{i}.ffn_up.{part}", f"v.blk.{i}.ffn_down.{part}"
            e.tensors[up], e.tensors[down] = e.tensors[down], e.tensors[up]
    image = noise(12, 12)
    _, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    for i in range(3):
        for part in ("weight", "bias"):
            up, down = f"v.blk.{i}.ffn_up.{part}", f"v.blk.{i}.ffn_down.{part}"
            e.tensors[up], e.tensors[down] = e.tensors[down], e.tensors[up]
    assert largest_error(e, floats, image) < 1e-5


def test_the_class_row_at_the_end(tmp_path):
    """llama.cpp's order: positions begin at the first patch, and the embeddings end with the class."""
    e = Encoder("mlp", blocks=1)
    image = noise(12, 12)
    first, a = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    last, b = values(tmp_path / "a.gguf", image, tmp_path, "--class-last")
    assert first["identity"] != last["identity"] and first["items"] == last["items"] and a != b
    # Without a block each row is for itself: the same patches with the positions of the next ones.
    position = e.tensors["v.position_embd.weight"][2]
    e.tensors["v.position_embd.weight"][2] = position[:e.dim] + position[:-e.dim]
    _, c = values(e.write(tmp_path / "b.gguf"), image, tmp_path)
    assert list(b[:8 * e.out]) == list(c[e.out:])


def tiles_of(image, edge, longest):
    """The tiles of Idefics3's image processor, with Pillow, and their columns and rows."""
    width, height = image.size
    short = min(width, height) * longest // max(width, height)
    short = max(1, short + short % 2)
    width, height = (longest, longest) if width == height else (longest, short) if width > height else (short, longest)
    columns, rows = -(-width // edge), -(-height // edge)
    image = image.resize((width, height), Image.LANCZOS).resize((columns * edge, rows * edge), Image.LANCZOS)
    tiles = [image.crop((x * edge, y * edge, x * edge + edge, y * edge + edge)) for y in range(rows) for x in range(columns)]
    return tiles + [image.resize((edge, edge), Image.LANCZOS)], [columns, rows]


@pytest.mark.parametrize("size, kind", [((36, 36), TENSOR_F32), ((50, 31), TENSOR_F16), ((70, 200), TENSOR_F32), ((1, 1), TENSOR_F32)])
def test_tiles(tmp_path, size, kind):
    e = Encoder("idefics3", image=16, patch=4, pool=2, longest=36, kind=kind)
    image = noise(*size)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    tiles, grid = tiles_of(image, 16, 36)
    assert y["tiles"] == grid and y["items"] == 4 * len(tiles) and y["resized"] == [16 * n for n in grid]
    for i, tile in enumerate(tiles):
        assert largest_error(e, floats[i * 4 * e.out:(i + 1) * 4 * e.out], tile) < 1e-5


def in_the_middle(image, width, height, how):
    """@image as large as it fits, with a black border."""
    scale = min(width / image.width, height / image.height)
    size = [min(most, math.ceil(edge * scale - 1e-6)) for edge, most in zip(image.size, (width, height))]
    out = Image.new("RGB", (width, height))
    out.paste(image.resize(size, how), ((width - size[0]) // 2, (height - size[1]) // 2))
    return out, size


def best_grid(size, grids, edge):
    """Most pixels kept, then the fewest tiles, then the first grid."""
    def key(grid):
        scale = min(grid[0] * edge / size[0], grid[1] * edge / size[1])
        used = min(int(size[0] * scale + 1e-4) * int(size[1] * scale + 1e-4), size[0] * size[1])
        return -used, grid[0] * grid[1] * edge * edge - used
    return min(grids, key=key)


GRIDS = [(x, y) for x in range(1, 5) for y in range(1, 5) if x * y <= 4]


@pytest.mark.parametrize("size, grid", [((40, 31), (2, 2)), ((10, 200), (1, 4)), ((17, 3), (2, 1)), ((70, 20), (4, 1)), ((16, 16), None), ((7, 9), None)])
@pytest.mark.parametrize("projector, pool", [("internvl", 2), ("mlp", 1)])
def test_tiles_of_the_best_grid(tmp_path, size, grid, projector, pool):
    e = Encoder(projector, image=16, patch=4, pool=pool)
    if projector == "internvl":
        e.keys["clip.vision.preproc_max_tiles"] = (U32, 4)
    else:
        e.keys["clip.vision.image_grid_pinpoints"] = ((ARRAY, I32), [16 * n for grid in GRIDS for n in grid])
        e.tensors["model.image_newline"] = [[e.out], TENSOR_F32, [1.0] * e.out]
    image = noise(*size)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    tiles = []
    if grid:
        assert best_grid(size, GRIDS, 16) == grid
        cut, resized = in_the_middle(image, 16 * grid[0], 16 * grid[1], Image.BICUBIC)
        tiles = [cut.crop((16 * i, 16 * j, 16 * i + 16, 16 * j + 16)) for j in range(grid[1]) for i in range(grid[0])]
        assert y["resized"] == resized
    assert y["tiles"] == list(grid or (0, 0)) and y["items"] == 16 // pool ** 2 * (len(tiles) + 1)
    n = 16 // pool ** 2 * e.out
    for i, tile in enumerate(tiles + [image.resize((16, 16), Image.BICUBIC)]):
        assert largest_error(e, floats[i * n:(i + 1) * n], tile) < 1e-5


@pytest.mark.parametrize("size", [(300, 200), (401, 13), (9, 1000), (2, 1), (1120, 897), (640, 480)])
def test_tiles_are_resized_as_pillow_does(tmp_path, size):
    """Tile by tile the same bits as an image of one tile."""
    e = Encoder("idefics3", image=16, patch=4, pool=2, longest=40)
    image = noise(*size)
    _, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    e.keys["clip.vision.preproc_image_size"] = (U32, 16)
    one = e.write(tmp_path / "b.gguf")
    tiles, _ = tiles_of(image, 16, 40)
    n = 4 * e.out
    for i, tile in enumerate(tiles):
        _, alone = values(one, tile, tmp_path)
        assert alone[:n] == floats[i * n:(i + 1) * n] and alone[n:] == alone[:n]


@pytest.mark.parametrize("size", [(12, 12), (24, 24), (31, 17), (5, 40), (1, 1), (300, 2), (13, 12)])
@pytest.mark.parametrize("projector, how, border", [("gemma3", Image.BILINEAR, (0, 0, 0)), ("mlp", Image.BICUBIC, (122, 116, 104))])
def test_images_are_resized_as_pillow_does(tmp_path, size, projector, how, border):
    mmproj = Encoder(projector).write(tmp_path / "a.gguf")
    image = noise(*size)
    y = encode(mmproj, image)
    width, height = y["resized"]
    assert max(width, height) == 12 and abs(width * size[1] - height * size[0]) <= max(size)
    square = Image.new("RGB", (12, 12), border)
    square.paste(image.resize((width, height), how), ((12 - width) // 2, (12 - height) // 2))
    assert encode(mmproj, square)["digest"] == y["digest"]


def all_digests(mmproj, image):
    """Of every CPU variant and number of threads."""
    return {encode(mmproj, image, "-t", str(t), env=cpu)["digest"] for cpu in CPUS for t in (1, 2, 3)}


@pytest.mark.parametrize("kind", [TENSOR_F32, TENSOR_F16, TENSOR_Q8_0])
@pytest.mark.parametrize("projector", ["gemma3", "idefics3", "internvl", "lfm2", "mlp", "pixtral", "qwen2.5vl_merger", "qwen2vl_merger"])
def test_the_same_bits_everywhere(tmp_path, projector, kind):
    e = Encoder(projector, image=60 if projector != "lfm2" else 64, patch=5 if projector != "lfm2" else 4, dim=96, pool=2 if projector == "lfm2" else 1, ffn=160, heads=3, hidden=96, kind=kind, gelu=projector == "gemma3", out=33,
                longest=100)
    assert len(all_digests(e.write(tmp_path / "a.gguf"), noise(71, 64))) == 1


def test_several_slices_and_segments(tmp_path):
    """More rows than a slice has (192), and than a segment of attention (512)."""
    e = Encoder("gemma3", image=50, patch=2, dim=16, ffn=16, heads=2, blocks=1, pool=5)
    image = noise(50, 50)
    y, floats = values(e.write(tmp_path / "a.gguf"), image, tmp_path)
    assert y["slices"] >= 4 * 3 + 1 + 2 and y["items"] == 25
    assert largest_error(e, floats, image) < 1e-5


@pytest.mark.skipif(not GEMMA.exists(), reason="no mmproj-tinygemma3.gguf among the test data")
def test_a_trained_encoder(tmp_path):
    assert len(all_digests(GEMMA, noise(45, 64))) == 1
    y, floats = values(GEMMA, Image.new("RGB", (32, 32), (200, 30, 30)), tmp_path)
    assert (y["projector"], y["items"], y["dim"]) == ("gemma3", 256, 128)
    other = encode(GEMMA, Image.new("RGB", (32, 32), (200, 30, 31)))
    assert other["identity"] == y["identity"] and other["digest"] != y["digest"]


def test_the_identity_is_that_of_keys_and_tensors(tmp_path):
    def identity(change=lambda e: None):
        e = Encoder("gemma3")
        change(e)
        return encode(e.write(tmp_path / "a.gguf"), noise(12, 12))["identity"]

    def mean(e):
        e.keys["clip.vision.image_mean"] = ((ARRAY, F32), [0.5, 0.25, 0.25])

    def weight(e):
        e.tensors["v.blk.1.attn_v.weight"][2][7] += 1e-3

    def text(e):
        e.keys["general.name"] = (STRING, "another name")
    same = identity()
    assert identity(text) == same and len({same, identity(mean), identity(weight)}) == 3


# --- broken files ---

def key(name, *value):
    def change(e):
        if value:
            e.keys[name] = value
        else:
            del e.keys[name]
    return change


def shape(name, dims, n=None):
    def change(e):
        e.tensors[name][0] = dims
        if n:
            e.tensors[name][2] = [0.5] * n
    return change


def without(name):
    return lambda e: e.tensors.pop(name)


def extra(e):
    e.tensors["v.blk.0.attn_q_norm.weight"] = [[24], TENSOR_F32, [1.0] * 24]


def quantized(e):
    e.tensors["mm.input_projection.weight"] = [[32, 24], TENSOR_Q8_0, [0.5] * 768]
    e.keys["clip.vision.projection_dim"] = (U32, 32)


V = "clip.vision."
BROKEN = [
    (key("general.architecture", STRING, "llama"), "architecture 'llama': this is not an encoder (an mmproj file has 'clip')"),
    (key("general.architecture"), "key 'general.architecture' is missing"),
    (key("clip.has_vision_encoder", BOOL, False), "the file has no image encoder"),
    (key("clip.projector_type", STRING, "klingon\n"), "projector type 'klingon?' is not supported; supported: gemma3, mlp (LLaVA), idefics3 (SmolVLM), internvl, pixtral, lfm2, qwen2vl_merger, "
     "qwen2.5vl_merger"),
    (key("clip.projector_type"), "key 'clip.projector_type' is missing"),
    (key("clip.use_silu", BOOL, True), "keys 'clip.use_gelu' and 'clip.use_silu' are both true"),
    (key(V + "image_size"), "key 'clip.vision.image_size' is missing"),
    (key(V + "image_size", U32, 100000), "key 'clip.vision.image_size' is 100000, not a number from 1 to 4096"),
    (key(V + "patch_size", U32, 13), "key 'clip.vision.patch_size' is 13, not a number from 1 to 12"),
    (key(V + "patch_size", U32, 0), "key 'clip.vision.patch_size' is 0, not a number from 1 to 12"),
    (key(V + "embedding_length", STRING, "24"), "key 'clip.vision.embedding_length'"),
    (key(V + "attention.head_count", U32, 5), "rows of 24 values cannot be divided into 5 heads of at most 256 values"),
    (key(V + "attention.layer_norm_epsilon", F32, -1.0), "key 'clip.vision.attention.layer_norm_epsilon' is -1"),
    (key(V + "block_count", U32, 3), "tensor 'v.blk.2.ln1.weight' is missing"),
    (key(V + "block_count", U32, 1), "tensor 'v.blk.1.ln1.weight' has no place in this image encoder"),
    (key(V + "projector.scale_factor", U32, 4), "key 'clip.vision.projector.scale_factor' is 4, not a number from 1 to 3"),
    (key(V + "projector.scale_factor"), "an image has 3 patches a side, fewer than the 4 that are pooled"),
    (key(V + "image_mean", F32, 0.5), "key 'clip.vision.image_mean' is no array of 3 numbers"),
    (key(V + "image_std", (ARRAY, F32), [1.0, 0.0, 1.0]), "key 'clip.vision.image_std' has the value 0"),
    (key(V + "image_mean", (ARRAY, F32), [1.0, float("nan"), 1.0]), "key 'clip.vision.image_mean' has the value"),
    (key(V + "projection_dim", U32, 21), "tensor 'mm.input_projection.weight' is 20 x 24 x 1 x 1, not 21 x 24 x 1 x 1"),
    (without("v.position_embd.weight"), "tensor 'v.position_embd.weight' is missing"),
    (without("v.blk.1.attn_out.weight"), "tensor 'v.blk.1.attn_out.weight' is missing"),
    (without("mm.soft_emb_norm.weight"), "tensor 'mm.soft_emb_norm.weight' is missing"),
    (shape("v.position_embd.weight", [24, 10], 240), "tensor 'v.position_embd.weight' is 24 x 10 x 1 x 1, not 24 x 9 x 1 x 1"),
    (shape("v.patch_embd.weight", [3, 4, 4, 24]), "tensor 'v.patch_embd.weight' is 3 x 4 x 4 x 24, not 4 x 4 x 3 x 24"),
    (shape("v.blk.0.attn_q.bias", [23], 23), "tensor 'v.blk.0.attn_q.bias' is 23 x 1 x 1 x 1, not 24 x 1 x 1 x 1"),
    (extra, "tensor 'v.blk.0.attn_q_norm.weight' has no place in this image encoder"),
    (quantized, "tensor 'mm.input_projection.weight' is quantized, which is not supported here"),
]


@pytest.mark.parametrize("change, says", BROKEN, ids=[says for _, says in BROKEN])
def test_a_broken_file_is_a_sentence(tmp_path, change, says):
    e = Encoder("gemma3")
    change(e)
    path = e.write(tmp_path / "a.gguf")
    error = encode(path, noise(12, 12), check=1)
    assert error.startswith(f"hobd encode: {path}: {says}") and error.count("\n") == 1


def test_llava_files_that_are_refused(tmp_path):
    for name, kind, value, says in (
            ("image_grid_pinpoints", (ARRAY, I32), [12, 25], "12x25 pixels are no 1 to 48 tiles of 12 pixels"),
            ("image_grid_pinpoints", (ARRAY, I32), [12, 24, 12], "is no array of 1 to 256 pairs of numbers"),
            ("image_grid_pinpoints", (ARRAY, I32), [0, 12], "0x12 pixels are no 1 to 48 tiles"),
            ("image_grid_pinpoints", (ARRAY, I32), [-12, 12], "pixels are no 1 to 48 tiles"),
            ("feature_layer", (ARRAY, I32), [1, 2], "only an array of one layer is supported"),
            ("feature_layer", (ARRAY, I32), [3], "is 3, not a number from 1 to 2")):
        e = Encoder("mlp")
        e.keys[V + name] = (kind, value)
        assert says in encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)
    e = Encoder("mlp")
    e.tensors["mm.2.weight"][0] = [20, 28]
    assert "tensor 'mm.2.weight' is 20 x 28" in encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)


@pytest.mark.parametrize("projector, change, says", [
    ("internvl", key(V + "preproc_max_tiles", U32, 49), "key 'clip.vision.preproc_max_tiles' is 49, not a number from 1 to 48"),
    ("internvl", key(V + "preproc_min_tiles", U32, 4), "no grid of tiles has 4 to 12 tiles, each edge at least 4"),
    ("internvl", without("v.class_embd"), "tensor 'v.class_embd' is missing"),
    ("internvl", shape("v.blk.0.ls1.weight", [20], 20), "tensor 'v.blk.0.ls1.weight' is 20 x 1 x 1 x 1, not 24"),
    ("pixtral", without("v.token_embd.img_break"), "tensor 'v.token_embd.img_break' is missing"),
    ("pixtral", key(V + "spatial_merge_size", U32, 2), "tensor 'mm.input_norm.weight' is missing"),
    ("pixtral", key(V + "attention.head_count", U32, 4), "heads of 6 values: not a multiple of 4"),
    ("lfm2", key(V + "patch_size", U32, 5), "the 102 patches of a side cannot be divided by the scale factor 1"),
    ("lfm2", key(V + "patch_size", U32, 2), "an image has 256 patches a side, more than 16384 in all"),
    ("lfm2", key(V + "image_resize_algo", STRING, "nearest"), "key 'clip.vision.image_resize_algo' is 'nearest', not bilinear, bicubic or lanczos"),
    ("lfm2", shape("v.position_embd.weight", [24, 8], 192), "tensor 'v.position_embd.weight' is 24 x 8 x 1 x 1, not 24 x 4 x 1 x 1"),
    ("qwen2vl_merger", without("v.patch_embd.weight.1"), "tensor 'v.patch_embd.weight.1' is missing"),
    ("qwen2vl_merger", key(V + "spatial_merge_size", U32, 3), "key 'clip.vision.spatial_merge_size' is 3, only 2 is supported"),
    ("qwen2vl_merger", key(V + "image_max_pixels", U32, 4), "key 'clip.vision.image_max_pixels' is 4, not a number from 64 to 262144"),
    ("qwen2.5vl_merger", key(V + "n_wa_pattern"), "key 'clip.vision.n_wa_pattern' is missing"),
    ("qwen2.5vl_merger", without("v.blk.0.ffn_up.weight"), "tensor 'v.blk.0.ffn_up.weight' is missing"),
])
def test_other_encoders_that_are_refused(tmp_path, projector, change, says):
    e = Encoder(projector, heads=3)
    change(e)
    path = e.write(tmp_path / "a.gguf")
    error = encode(path, noise(12, 12), check=1)
    assert error.startswith(f"hobd encode: {path}: {says}") and error.count("\n") == 1


def test_an_image_that_is_too_narrow(tmp_path):
    path = Encoder("qwen2vl_merger", heads=3).write(tmp_path / "a.gguf")
    assert encode(path, noise(65536, 1), check=1) == "hobd encode: an image of 65536x1 is too narrow for this image encoder\n"


def test_tiles_that_are_refused(tmp_path):
    for name, value, says in (("projector.scale_factor", 2, "the 3 patches of a side cannot be divided by the scale factor 2"),
                              ("preproc_image_size", 100, "key 'clip.vision.preproc_image_size' is 100, not a number from 1 to 96")):
        e = Encoder("idefics3")
        e.keys[V + name] = (U32, value)
        assert says in encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)
    for name in ("projector.scale_factor", "preproc_image_size"):
        e = Encoder("idefics3")
        del e.keys[V + name]
        assert f"key '{V}{name}' is missing" in encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)
    e = Encoder("idefics3", pool=3)
    del e.tensors["mm.model.fc.weight"]
    assert "tensor 'mm.model.fc.weight' is missing" in encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)


def test_a_truncated_file_is_a_sentence(tmp_path):
    whole = Encoder("gemma3").write(tmp_path / "a.gguf").read_bytes()
    short = tmp_path / "b.gguf"
    for n in (0, 3, 23, 24, 200, 1500, 3000, len(whole) // 2, len(whole) - 64):
        short.write_bytes(whole[:n])
        error = encode(short, noise(12, 12), check=1)
        assert str(short) in error and error.count("\n") == 1


def test_a_type_without_kernels(tmp_path):
    path = Encoder("gemma3").write(tmp_path / "a.gguf")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"v.blk.0.attn_q.weight") + len("v.blk.0.attn_q.weight") + 4 + 16
    whole[at:at + 4] = struct.pack("<I", 99)
    path.write_bytes(whole)
    assert "tensor 'v.blk.0.attn_q.weight' is of type number 99, which is not supported" in encode(path, noise(12, 12), check=1)


def test_weights_that_are_no_numbers(tmp_path):
    """Each CPU variant says so: some operations would lose a NaN."""
    for name, value in (("v.blk.0.ffn_down.weight", float("inf")), ("v.blk.0.ln2.weight", float("nan")),
                        ("v.position_embd.weight", float("nan"))):
        e = Encoder("gemma3")
        e.tensors[name][2][5] = value
        path = e.write(tmp_path / "a.gguf")
        for env in ({"HOB_CPU": "scalar"}, {}):
            error = encode(path, noise(12, 12), env=env, check=1)
            assert error == f"hobd encode: {path}: tensor '{name}' has values that are no numbers\n"


def test_weights_that_are_too_large(tmp_path):
    e = Encoder("gemma3")
    e.tensors["v.blk.0.ffn_down.weight"][2][5] = 3e38
    e.tensors["v.blk.0.ffn_up.bias"][2] = [1e30] * e.ffn
    error = encode(e.write(tmp_path / "a.gguf"), noise(12, 12), check=1)
    assert error == "hobd encode: the image encoder computes values that are no numbers: its weights are damaged\n"


# --- the command ---

def run(*args, input=b""):
    return subprocess.run([HOBD, "encode", *args], input=input, capture_output=True, timeout=60)


def test_wrong_usage_and_wrong_images(tmp_path):
    mmproj = Encoder("gemma3").write(tmp_path / "a.gguf")
    assert run("--mmproj", mmproj).returncode == run("x.png").returncode == run("--mmproj", mmproj, "-t", "0", "x").returncode == 2
    assert b"--mmproj" in run("--help").stdout
    r = run("--mmproj", mmproj, "-", input=b"no image")
    assert r.returncode == 1 and r.stderr.startswith(b"hobd encode: -: ") and not r.stdout
    r = run("--mmproj", mmproj, tmp_path / "none.png")
    assert r.returncode == 1 and b"none.png: No such file" in r.stderr
    r = run("--mmproj", tmp_path / "none.gguf", "-", input=png(noise(3, 3)))
    assert r.returncode == 1 and b"none.gguf: No such file" in r.stderr
    r = run("--mmproj", mmproj, "-", input=png(Image.new("RGB", (65537, 1))))
    assert r.returncode == 1 and b"an image of 65537x1 has an edge over 65536 pixels" in r.stderr


def test_what_is_printed_for_people(tmp_path):
    mmproj = Encoder("gemma3").write(tmp_path / "a.gguf")
    r = run("--mmproj", mmproj, "-", input=png(noise(24, 12)))
    lines = r.stdout.decode().splitlines()
    assert r.returncode == 0 and lines[0].startswith("gemma3, identity ") and len(lines) == 4
    assert lines[1].startswith("9 items of 20 values, image resized to 12x6, digest ")
    assert lines[2].startswith("encoded in ") and lines[3].startswith("first values: ")
