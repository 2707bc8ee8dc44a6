# SPDX-License-Identifier: MIT
"""Texts for llama.cpp's eight example grammars: by file name, those that are accepted and those that are refused."""

OPERA = """1. e4 e5
2. Nf3 d6
3. d4 Bg4
4. dxe5 Bxf3
5. Qxf3 dxe5
6. Bc4 Nf6
7. Qb3 Qe7
8. Nc3 c6
9. Bg5 b5
10. Nxb5 cxb5
11. Bxb5+ Nbd7
12. O-O-O Rd8
13. Rxd7 Rxd7
14. Rd1 Qe6
15. Bxd7+ Nxd7
16. Qb8+ Nxb8
"""  # Morphy in Paris, 1858, up to the move before mate

FACTORIAL = """int fact(int n){if(n<=1){return 1;}return n*fact(n-1);}"""
LOOPS = """int sum(int n){int s = 0;for(int i = 0; i<n; i = i+1){s = s+i;}while(s>=100){s = s/2;}print (s, n);return s;}"""
COMMENTS = """float half(float x){// a half, "quoted"
/* over two
lines, a * b */return x/2;}char c(){return 65;}"""

NESTED = '{"name": "Größe", "list": [1, -2.5, 3e5, {"deep": [[], {}, [null]]}],\n    "ok": true, "no": false}'

EXAMPLES = {
    "arithmetic": (
        ["1+2=3\n", "x=1\n", "(a_b +c9 )*( 7)= z\n", "1+2*3/4-5=6\na=b\n", "10 = 10\n", "f1*f2=  f3 \n", "((((1))))=1\n", "1=(2+3)\n", "1\n=2\n\n"],
        ["", "\n", "1+2", "1+2=3", "1 + 2=3\n", "X=1\n", "1+=2\n", "=1\n", "1==1\n", "(1+2=3\n", "1+2=3-1\n", "-1=1\n", "1.5=1\n", "日=1\n"]),
    "c": (
        ["", "int main(){}", "int main(int argc){return 0;}", FACTORIAL, LOOPS, COMMENTS, "int a(){}int b(){}", "char  c(char\ta){}",
         "int f(){return -1*( 2+3 )-g(1, h(2), 3);}", "int f(){if(a==b){}else{x = 1;}}"],
        ["main(){}", "void f(){}", "int f() {}", "int f(){", "int f(){}}", "int f(){x=1;}", "int f(){x = 1}", "int f(){return;}", "int 1a(){}", "int f(int a, int b){}",
         "int f(){if(a){}}", "int f(){for(;;){}}", "int f(){print(1);}", "int f(){x = (1);}", "int f(){/* open }", "int f(){x = 1.5;}", "int f(){} int g(){}"]),
    "chess": (
        ["1. f3 e5\n2. g4 Qh4#\n", "1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n4. Ba4 Nf6\n5. O-O Be7\n", OPERA,
         "1. e4 c5\n2. Nf3 d6\n3. d4 cxd4\n4. Nxd4 Nf6\n5. Nc3 a6\n", "1. d4 d5\n2. c4 dxc4\n3. e3 b5\n4. a4 c6\n", "1. e4 e5\n49. exd8=Q+ Qh4xe1\n",
         "1. Nbd7 R1e2\n99. O-O-O+ a1=N#\n", "1. O-O O-O\n2. Kxe1 Ka8\n"],
        ["", "1. e4 e5\n", "1. e4 e5\n2. Nf3\n", "1. e4 e5\n2. Nf9 Nc6\n", "2. e4 e5\n3. Nf3 Nc6\n", "1. e4 e5 2. Nf3 Nc6\n", "1. e2-e4 e7-e5\n2. Nf3 Nc6\n",
         "1. e4 e5\n2. 0-0 Nc6\n", "1. e4 e5\n02. Nf3 Nc6\n", "1. e4 e5\n2. Nf3 Nc6", "1. e4 e5\n100. Nf3 Nc6\n", "1.e4 e5\n2.Nf3 Nc6\n", "1. e4 e5\n2. Pd4 exd4\n",
         OPERA + "17. Rd8#\n"]),
    "english": (
        ["a", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "line one\nline two", "a\ttab", 'quotes "and" [brackets] \\ back', "E = mc^2; 100% {x} ~ `y` |z|",
         "1234567890"],
        ["", " leading", "trailing ", "two  spaces", "naïve", "a smile 😀", "a\r\nb", "\u201ccurly\u201d", "end\n", "日本語", "a\u00a0b"]),
    "japanese": (
        ["こんにちは", "カタカナ", "日本語", "これは、ペンです。", "東京 大阪", "一行\n二行", "ラーメンを食べます", "吾輩は猫である。名前はまだ無い。", "「はい」\t『いいえ』", "〜々〆"],
        ["", "abc", "日本語abc", " 日本", "日本 ", "日本  語", "ﾊﾝｶｸ", "ＡＢＣ", "日本！", "한국어", "1つ", "日本\u3000語", "🗾"]),
    "json": (
        ["{}", '{"a": 1}', '{"a":[1,2.5,-3e5,true,false,null]}', NESTED, r'{"s": "\u00e9\n\"q\"\\"}', '{"日本": "😀"}', '{ "a" : 1 }', '{"a": {"b": {"c": []}}}\n', '{"": ""}',
         '{"n": -0.5E+3}\n  \t'],
        ["", "[]", "1", "{", "{}}", "{a: 1}", "{'a': 1}", '{"a": 1,}', '{"a": 01}', '{"a": "x\ny"}', r'{"a": "\x41"}', '{"a": 1}  ', '{"a" 1}', '{"a": tru}', '{"a": .5}', '{"a": +1}',
         '{"a": 1.}', '{"a": NaN}', '{"a": "\x7f"}', '{"a": 1 "b": 2}', r'{"a": "\u12"}', ' {}']),
    "json_arr": (
        ["[\n]", "[\n1]", "[\n1,\n2]", '[\n {"a": 1},\n {"b": [true, null]}]', '[\n"x",\n"y" ]', "[\n[1,2],\n[]]", "[\n-0.5e3]", "[\ntrue,\nfalse,\nnull]", '[\n "日本"]',
         "[\n" + NESTED + "]"],
        ["", "[]", "[1]", "[\n1, 2]", "[\n1,\n]", "[\n1]\n", "{}", "[\n1\n2]", "[\n'a']", "[\n1,\n2", "[\n1]]", " [\n1]", "[\n,\n1]"]),
    "list": (
        ["- a\n", "- one\n- two\n- three\n", "- milk and eggs\n", "- - nested\n", "- 日本語\n- 😀\n", "- \t\n", "-  two spaces\n", '- "quoted" \\ # \n'],
        ["", "- a", "-a\n", "* a\n", "- \n", "a\n", "- a\n\n", "- a\r\n", "- a\u2028b\n", "- a\u0085b\n", "- a\n b\n", "- a\x0bb\n", "\n- a\n"]),
}
