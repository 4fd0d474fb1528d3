"""math_verify: what counts as the same answer, rule by rule, and what does not."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from es_mpi.grading import make_grader
from es_mpi.grading.maths.node import Unreadable
from es_mpi.grading.maths.parser import parse
from es_mpi.types import Verdict

SAME = r"""
1/2 ~ .5
\frac{1}{2} ~ \dfrac12
1.24 ~ \frac{1235}{1000}
2.998 \times 10^8 \text{ m/s} ~ 2.998\times10^{8}
8\text{ km/h} ~ 8 km/h
12 \mathrm{~cm}^{2} ~ 12 \text{ cm}^2
4^{\text{th}} ~ 4
2k\pi + \frac{\pi}{3}, k\in Z ~ \frac{\pi}{3}+2k\pi
\frac{n!}{k!(n-k)!} ~ \binom{n}{k}
1:\sqrt{3}:2 ~ 1:\sqrt3:2
2\sqrt{3} ~ \sqrt{12}
\frac{\sqrt{3}}{3} ~ \frac{1}{\sqrt{3}}
(x-1)(x+2) ~ x^2+x-2
\pi/4 ~ \frac{\pi}{4}
11111111100 ~ 11,\! 111,\! 111,\! 100
\$32,\!348 ~ \$32,\!348
32348 ~ $32,348.00
0.\overline{3} ~ \frac13
\frac{1}{3} ~ 0.\overline{3}
0.1\overline{6} ~ 1/6
[2,5) ~ [2,5)
(-\infty, -14)\cup(-3,\infty) ~ x < -14 \text{ or } x > -3
x < -14 \text{ or } x>-3 ~ (-\infty,-14)\cup(-3,\infty)
\{1,2,3\} ~ \{3,2,1\}
1,2,3 ~ 3, 1, 2
x=1 \text{ or } x=3 ~ 1, 3
x=1, x=3 ~ x = 3, 1
(1,2) ~ (1, 2)
\left(3, \frac{\pi}{2}\right) ~ (3,\pi/2)
y = 2x + 3 ~ y=3+2x
2x+3y=6 ~ 4x+6y=12
x^2+y^2=1 ~ y^2 + x^2 - 1 = 0
x+z=1 ~ x-1=-z
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{bmatrix}1&2\\3&4\end{bmatrix}
\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix} ~ (1,2,3)
\text{odd} ~ odd
\text{Yes} ~ yes
\text{(C)} ~ C
\text{C} ~ (C)
10^{-2} ~ 0.01
1.0 \cdot 10^{-5} ~ 0.00001
1e-5 ~ 10^{-5}
3^{10} ~ 59049
2^{100} ~ 1267650600228229401496703205376
n \ge 7 ~ n \geq 7
5 \text{ cm} ~ 5 cm
5 \text{ cm} ~ 5
5 ~ 5 \text{ centimeters}
5\text{ cm} ~ 5 centimeters
36^\circ ~ 36
36 ~ 36^{\circ}
50\% ~ 50
50\% ~ \frac12
6+9i ~ 9i+6
\frac{3+4i}{5} ~ 0.6+0.8i
\log_2 8 ~ 3
\ln e^2 ~ 2
2\sin x\cos x ~ \sin 2x
\sin^2 x + \cos^2 x ~ 1
e^{2x} ~ (e^x)^2
\sqrt[3]{8} ~ 2
\sqrt[3]{-8} ~ -2
|x-3| ~ |3-x|
\frac{x+2}{7} ~ \frac{x}{7}+\frac{2}{7}
3:4 ~ 6:8
3:4:5 ~ 6:8:10
\binom{10}{3} ~ 120
5! ~ 120
n! ~ n \cdot (n-1)!
-\frac{1}{2} ~ -0.5
-\frac{1}{2} ~ \frac{-1}{2}
\frac{-1}{2} ~ -1/2
(-\infty, 3] ~ x \le 3
x \neq 2 ~ (-\infty,2)\cup(2,\infty)
\pm 2 ~ 2, -2
x = \pm 2 ~ \{-2, 2\}
2, -2 ~ \pm 2
\frac{1 \pm \sqrt{5}}{2} ~ \frac{1+\sqrt5}{2}, \frac{1-\sqrt5}{2}
(0,0), (1,1) ~ (1,1), (0,0)
1\frac{1}{2} ~ 1.5
1\frac{1}{2} ~ \frac{3}{2}
\frac{3}{2} ~ 1 \frac{1}{2}
1 1/2 ~ 3/2
10000 ~ 10{,}000
10{,}000 ~ 10000
42 ~ \text{42}
42 ~ \mathbf{42}
42 ~ 42.
42 ~ 42 apples
42 ~ x = 42
42 ~ \(42\)
x^{3/2} ~ x\sqrt{x}
2^{n+1} ~ 2\cdot 2^n
a^2-b^2 ~ (a+b)(a-b)
\frac{a}{b}+\frac{c}{d} ~ \frac{ad+bc}{bd}
\emptyset ~ \varnothing
\infty ~ +\infty
\mathbb{R} ~ (-\infty,\infty)
3 \text{ and } 5 ~ 3, 5
3, 5 ~ 5 and 3
x = 3, y = 5 ~ (3,5)
(3,5) ~ x = 3, y = 5
(x,y) = (3,5) ~ x=3, y=5
20\text{ minutes} ~ 20 min
\$5 ~ 5 dollars
A ~ A
A ~ \text{A}
A ~ A) 5
\text{Monday} ~ monday
2+3i ~ 3i+2
x>5 ~ 5<x
-1<x<2 ~ (-1,2)
f(x)=x^2 ~ x^2
f(x)=x^2 ~ y=x^2
\frac{\pi}{3} ~ 60^\circ
1.5 \times 10^8 ~ 150000000
150,000,000 ~ 1.5 \times 10^8
\tan^{-1}(1) ~ \frac{\pi}{4}
2009 \tfrac13 ~ \frac{6028}{3}
\frac{5}{13} ~ 5/13
x = \frac{\pi}{4} + k\pi, k \in \mathbb{Z} ~ \frac{\pi}{4}+k\pi
(5, \infty) ~ x>5
\dfrac{1}{x-1} ~ -\frac{1}{1-x}
101_2 ~ 101_{2}
4210_{5} ~ 4210_5
2(x+1) ~ 2x+2
S = 12 ~ 12
\frac{9}{2} \text{ inches} ~ 4.5
\frac12, \frac13 ~ 1/3, 1/2
y=\frac{1}{2}x ~ y=0.5x
6 - 5i ~ -5i + 6
\sqrt{2}+\sqrt{3} ~ \sqrt{5+2\sqrt{6}}
\cos 40^\circ ~ \sin 50^\circ
[-2,7] ~ -2 \le x \le 7
p - q ~ -q+p
14 ~ 14th
-3 ~ {-3}
0.0833333 ~ 1/12
1/12 ~ 0.083333333
3.14159265 ~ \pi
12 ~ 12\,\text{cm}^2
12\,\mathrm{cm}^2 ~ 12
12 ~ 12\ \mathrm{m/s}
8\pi ~ 8\pi \text{ square units}
\sqrt{13} \text{ units} ~ \sqrt{13}
a \le -2 ~ a \leqslant -2
f(2) < f(3) ~ f(3) > f(2)
x \in (-\infty, 2) \cup (3, \infty) ~ x<2 \text{ or } x>3
\left\{ \frac{1}{2}, 3 \right\} ~ 3, 0.5
\text{no solution} ~ No solution
f^{-1}(x) = \frac{x-1}{2} ~ \frac{x-1}{2}
\frac{x^2}{4} + \frac{y^2}{9} = 1 ~ 9x^2+4y^2=36
y - 3 = 2(x-1) ~ y=2x+1
y = 2x+1 ~ y - 3 = 2(x-1)
y=2x+1 ~ 2x - y + 1 = 0
(x-1)^2 + (y+2)^2 = 9 ~ x^2+y^2-2x+4y-4=0
\log_{10} 100 ~ 2
\sqrt[4]{16} ~ 2
1.2\overline{34} ~ \frac{611}{495}
3\sqrt{2} \text{ cm} ~ 3\sqrt 2
\$1.50 ~ 1.5
1, 2, \ldots, 10 ~ 1,2,\dots,10
e^{i\pi/3} ~ \frac{1}{2}+\frac{\sqrt{3}}{2}i
\cos\frac{\pi}{3} + i \sin \frac{\pi}{3} ~ e^{i\pi/3}
\langle 1,2,3 \rangle ~ (1,2,3)
|z|=2 ~ |z| = 2
\frac{1}{2} \ln 3 ~ \ln \sqrt{3}
\frac{\ln 8}{\ln 2} ~ 3
\binom{n}{2} ~ \frac{n(n-1)}{2}
2^{10}-1 ~ 1023
\frac{10!}{5!5!} ~ 252
C = 2\pi r ~ 2\pi r
A = \pi r^2 ~ \pi r^{2}
\angle ABC = 60^\circ ~ 60^\circ
\triangle ABC ~ \triangle ABC
AB = 5 ~ 5
m\angle A = 30 ~ 30^\circ
t = 3 \text{ seconds} ~ 3
v = 5 \text{ m/s} ~ 5 \text{ m/s}
9.8 \text{ m/s}^2 ~ 9.8
\frac{3}{4} \text{ of the pizza} ~ \frac34
\text{Alice} ~ Alice
\text{Alice and Bob} ~ Bob and Alice
\textbf{(B)} ~ B
\textbf{(B) } 42 ~ B
(-1)^n ~ (-1)^{n}
n(n+1)/2 ~ \frac{n^2+n}{2}
\frac{n(n+1)(2n+1)}{6} ~ \frac{2n^3+3n^2+n}{6}
x = 2, -3 ~ \{2,-3\}
x_1 = 2, x_2 = -3 ~ 2, -3
x = 2 \text{ or } x = -3 ~ -3, 2
-\frac{b}{2a} ~ \frac{-b}{2a}
k > \frac{1}{4} ~ (\frac14, \infty)
k > \frac{1}{4} ~ k>0.25
0 < x \le 1 ~ (0,1]
x \ge 0, x \ne 1 ~ [0,1)\cup(1,\infty)
\sqrt{x+1} ~ (x+1)^{1/2}
x^{-1} ~ \frac1x
f'(x) = 2x ~ 2x
2x\,dx ~ 2x dx
\frac{2}{3} ~ 0.666666667
0.67 ~ 0.67
3,000,000 ~ 3 \times 10^6
3 million ~ 3 million
12 \frac{1}{2}\% ~ 12.5\%
12.5\% ~ \frac{1}{8}
1:2 ~ \frac{1}{2}
1:2:3 ~ 2:4:6
2 \text{ hours } 30 \text{ minutes} ~ 2 hours 30 minutes
(2, -1) \text{ and } (3, 4) ~ (3,4), (2,-1)
(a, b) = (2, 3) ~ a = 2, b = 3
\left( \frac{1}{2}, \infty \right) ~ x > 0.5
\mathbb{Z} ~ \mathbb{Z}
\frac{\pi}{2} + k\pi ~ k\pi + \frac{\pi}{2}
50^\circ 30' ~ 50.5^\circ
\tan 45^\circ ~ 1
\dfrac{\sqrt{6}+\sqrt{2}}{4} ~ \cos 15^\circ
2\cos^2 x - 1 ~ \cos 2x
\sec x ~ \frac{1}{\cos x}
x\ln x - x + C ~ x(\ln x - 1) + C
\ln|x| + C ~ \ln |x| + C
\frac{1}{2}e^{2x} ~ \frac{e^{2x}}{2}
\sinh x ~ \frac{e^x - e^{-x}}{2}
\max(3,5) ~ 5
\lfloor 3.7 \rfloor ~ 3
\{1\} ~ 1
\{ (1,2), (3,4) \} ~ (1,2), (3,4)
\begin{bmatrix} x & y \end{bmatrix} ~ \begin{pmatrix} x & y\end{pmatrix}
\begin{vmatrix} 1 & 2\\ 3& 4\end{vmatrix} ~ \begin{vmatrix} 1 & 2\\ 3& 4\end{vmatrix}
a+b\sqrt{c} ~ b\sqrt{c}+a
a^b \cdot a^c ~ a^{b+c}
\sqrt{ab} ~ \sqrt{a}\sqrt{b}
(2x-1)^3 ~ 8x^3-12x^2+6x-1
\text{True} ~ true
x=\dfrac{-b\pm\sqrt{b^2-4ac}}{2a} ~ \frac{-b\pm\sqrt{b^2-4ac}}{2a}
4\frac{2}{3} ~ 4 \frac{2}{3}
4\frac{2}{3} ~ \frac{14}{3}
\frac{14}{3} ~ 4\frac{2}{3}
-2\frac{1}{2} ~ -2.5
2 \times 3 ~ 6
6 ~ 2 \cdot 3
(3, -4) ~ \left(3,-4\right).
y=-\frac{3}{4}x+2 ~ 3x+4y=8
3x+4y=8 ~ y=-\frac{3}{4}x+2
\overline{AB} ~ AB
0.5 ~ 1/2
.75 ~ 75\%
2\text{ or }3 ~ 2, 3
5\text{ dollars} ~ \$5
1 - \frac{1}{2^{n}} ~ 1-2^{-n}
1{,}234{,}567 ~ 1234567
1\,234\,567 ~ 1234567
\{x \mid x > 3\} ~ (3,\infty)
\{x \in \mathbb{R} : x \neq 0\} ~ (-\infty,0)\cup(0,\infty)
\text{all real numbers} ~ \mathbb{R}
\mathbb{R} ~ all real numbers
\infty ~ infinity
[-1,1]\setminus\{0\} ~ [-1,1] \setminus \{0\}
\frac{1}{2},\frac{1}{3},\frac{1}{6} ~ \frac16, \frac13, \frac12
2 + \sqrt{3}i ~ 2+i\sqrt{3}
\sqrt{-4} ~ 2i
10^{10} ~ 10,000,000,000
$\frac{1}{3}$ ~ $33\frac13\%$
$2x+4$ ~ $2(x+2)$
5,10,15 ~ \{5, 10, 15\}
$10\%$ ~ 10 percent
$\sqrt{2}$ ~ 2^{1/2}
$\frac{\sqrt{2}}{2}$ ~ 1/\sqrt2
$x^2 - 4$ ~ (x-2)(x+2)
$n = 4k+1$ ~ n=4k+1
$(0, \infty)$ ~ x > 0
$\{0, 1\}$ ~ x=0 \text{ or } x=1
$4 + 3i$ ~ 3i + 4
$(-1, 2]$ ~ -1 < x \leq 2
$\frac{13}{4}$ ~ 3.25
$3.25$ ~ 3 \frac{1}{4}
$1.5\times 10^{3}$ ~ 1500
$2.998 \times 10^8 \text{ m/s}$ ~ 2.998\times10^{8}
$6.02 \cdot 10^{23}$ ~ 6.02e23
$\ln 2$ ~ \log_e 2
$8\text{ km/h}$ ~ 8 km/h
$\$18.90$ ~ 18.9
$1,\!000,\!000$ ~ 1000000
$\left\lfloor \frac{n}{2} \right\rfloor$ ~ \lfloor n/2 \rfloor
$\frac{n!}{k!(n-k)!}$ ~ \binom{n}{k}
$3\sqrt[3]{4}$ ~ \sqrt[3]{108}
$(1+\sqrt{2})^2$ ~ 3+2\sqrt{2}
$\tan\theta$ ~ \frac{\sin\theta}{\cos\theta}
$120^{\circ}$ ~ 120 degrees
$120$ degrees ~ 120^\circ
$\frac{2\pi}{3}$ ~ \frac{2}{3}\pi
$2\pi r h + 2 \pi r^2$ ~ 2\pi r (r+h)
$y = x^2 + 1$ ~ x^2+1
$x^2 + 1$ ~ y = x^2+1
$f(x) = 2x$ ~ g(x) = 2x
$a = -1, b = 2$ ~ (-1, 2)
$(a,b) = (-1,2)$ ~ a=-1, b=2
$m = \frac{1}{2}, n = 3$ ~ m=0.5 \text{ and } n=3
$\{(x,y) : x = y\}$ ~ \{(x, y) : x=y\}
$\begin{pmatrix}1\\0\end{pmatrix}$ ~ \begin{bmatrix} 1 \\ 0 \end{bmatrix}
$\left[\begin{array}{cc}1&2\\3&4\end{array}\right]$ ~ \begin{pmatrix}1&2\\3&4\end{pmatrix}
$6:5$ ~ \frac{6}{5}
$4.5\text{ hours}$ ~ 4.5 hrs
$\text{Sunday}$ ~ \text{Sunday}
$-\frac{3}{2}$ ~ -1\frac12
$0$ ~ 0.0
$-0$ ~ 0
$100$ ~ 1 \times 10^2
$2^{-3}$ ~ \frac18
$1+\frac{1}{2}+\frac{1}{4}$ ~ 1.75
$\frac{7}{8}$ ~ .875
$\sin^{-1}\frac{1}{2}$ ~ \frac{\pi}{6}
$\arctan 1$ ~ 45^\circ
$\cot x$ ~ \frac{1}{\tan x}
$x \leq -1 \text{ or } x \geq 1$ ~ (-\infty,-1]\cup[1,\infty)
$|x| $ ~ \sqrt{x^2}
$(x, y) = (1, 2), (3, 4)$ ~ (1,2),(3,4)
$x = 5$ or $x = -5$ ~ \pm 5
$k=\pm 1$ ~ 1, -1
no real solutions ~ \text{No real solutions}
$\frac{1}{x+1}$ ~ (x+1)^{-1}
$\overline{AB}$ ~ \overline{AB}
$ABC$ ~ ABC
$15 \%$ ~ 0.15
$0.15$ ~ 15\%
$12 \mathrm{~cm}$ ~ 12
$12 \mathrm{~cm}^{2}$ ~ 12 \text{ cm}^2
$\mathrm{(A)}$ ~ A
$\mathbf{A}$ ~ \textbf{A}
$\frac{3 \sqrt{3}}{4}$ square units ~ \frac{3\sqrt3}{4}
$t \geq 3$ ~ [3,\infty)
$8!$ ~ 40320
$C_{10}^3$ ~ C_{10}^{3}
$1 \leq a < 2$ ~ [1,2)
$S_n = n^2$ ~ n^2
$a_n=2n-1$ ~ 2n-1
$\frac{1}{2}n(n+1)$ ~ \frac{n^2+n}{2}
$e^2$ ~ e^{2}
$(2,3)\cup(3,4)$ ~ (3,4) \cup (2,3)
$2k\pi + \frac{\pi}{3}, k\in Z$ ~ \frac{\pi}{3}+2k\pi
$1:\sqrt{3}:2$ ~ 1:\sqrt3:2
$4^{\text{th}}$ ~ 4
$\frac{5}{6} \pi$ ~ 150^\circ
$\varnothing$ ~ \emptyset
$[0,+\infty)$ ~ [0, \infty)
$x+y-3=0$ ~ y=3-x
$y=3-x$ ~ x+y=3
$3x-4y+5=0$ ~ y = \frac{3}{4}x+\frac{5}{4}
$\frac{x^{2}}{4}+y^{2}=1$ ~ x^2+4y^2=4
$y^2=4x$ ~ y^{2} = 4x
"""

DIFFERENT = r"""
1/2 ~ 1/3
1/2^{99} ~ 1/2^{98}
2\sqrt{3} ~ \sqrt{13}
1,2,3 ~ 1,2
1,2,3 ~ 1,2,4
1,2 ~ 1,2,3
(1,2) ~ (2,1)
(1,2) ~ [1,2]
[1,2) ~ (1,2]
\{1,2\} ~ \{1,3\}
x < 3 ~ x \le 3
x < 3 ~ x > 3
5 \text{ cm} ~ 5 \text{ m}
5 ~ -5
5 ~ 50
0.5 ~ 0.05
28\% ~ 27\%
28\% ~ 2.8
50\% ~ 5
10 ~ 1,0
x=3 ~ y=3
x=3, y=5 ~ 5, 3
x=3, y=5 ~ x=5, y=3
(x-1)(x+2) ~ x^2-x-2
\pi ~ 3.14
\frac{22}{7} ~ 3.14
\frac13 ~ 0.33
\frac13 ~ 0.3
\frac{1}{3} ~ 0.333334
0.5 ~ 0.49
12.5 ~ 12.4
\sqrt{x^2} ~ x
x^2 ~ x
\sin x ~ \cos x
\pm 2 ~ 2
2 ~ \pm 2
\text{odd} ~ \text{even}
A ~ B
A ~ A or B
\text{(C)} ~ \text{(D)}
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} ~ \begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}
\begin{pmatrix} 1 \\ 2 \end{pmatrix} ~ (2,1)
2x+3y=6 ~ 2x+3y=7
xy=6 ~ 6
y=2x+3 ~ 2x
3:4 ~ 4:3
3:4:5 ~ 3:4:6
10^{-2} ~ 10^{2}
5! ~ 5
36^\circ ~ 37^\circ
101_2 ~ 101_3
6+9i ~ 6-9i
i ~ 1
e^{\pi\sqrt{163}} ~ 262537412640768744
10^{50} ~ 10^{50}+1
\sqrt{2} ~ 1.41421356237309504880168872420969807856967187537694807317667973799 + 10^{-20}
0 ~ 10^{-60}
0 ~ \pi/2^{100}
\infty ~ -\infty
(-\infty,3) ~ (-\infty,3]
42 ~ 41, 42, 43
42 ~ 42 or 43
2^{n+1} ~ 2^n+1
a^2-b^2 ~ (a-b)^2
(0,1)\cup(2,3) ~ (0,1)
x\neq 2 ~ x=2
\text{Yes} ~ \text{No}
1000 ~ 1,00
(1,000) ~ 1000
12:00 ~ 11:00
\frac{5}{13} ~ \frac{13}{5}
x^2=4 ~ 2
f(2)<f(3) ~ f(2)>f(3)
\mathbb{R} ~ \mathbb{Z}
n! ~ n
C ~ C_1 + 1
204_5 ~ 204_6
9 ~ 9^9^9^9^9
1 ~ 1^{9^{9^{9^9}}}+1
y=2x+1 ~ y=2x+2
y=2x+1 ~ 2x
(x-1)^2 + (y+2)^2 = 9 ~ (x+1)^2+(y+2)^2=9
\textbf{(B)} ~ C
50^\circ 30' ~ 50^\circ
8:30 ~ 8:31
\frac{dy}{dx} = 2x ~ 3x
3 million ~ 4 million
3 million ~ 3 thousand
3 million ~ 3 billion
2 \text{ hours } 30 \text{ minutes} ~ 2 hours 40 minutes
\text{Alice and Bob} ~ Alice
\{1\} ~ \{1,2\}
x \ge 0, x \ne 1 ~ [0,\infty)
k>\frac14 ~ k \ge \frac14
-2\frac12 ~ -1.5
12.5\% ~ \frac{1}{80}
\begin{vmatrix} 1 & 2\\ 3& 4\end{vmatrix} ~ \begin{vmatrix} 1 & 2\\ 3& 5\end{vmatrix}
1,234,567 ~ 1,234,568
\mathbb{R} ~ \mathbb{Q}
\sqrt{-4} ~ 2
5\text{ dollars} ~ 5\text{ cents}
AB=5 ~ AB=6
\frac{\pi}{2}+k\pi ~ \frac{\pi}{2}+2k\pi
x_1 = 2, x_2 = -3 ~ -3, 2
\text{no solution} ~ one solution
a^b a^c ~ a^{bc}
1, 2, \ldots, 10 ~ 1, 2, \ldots, 11
1/3 ~ 0.3333
\text{Tuesday} ~ \text{Thursday}
f(x)=x^2 ~ f(x)=x^3
10 \text{ cm} ~ 10 \text{ km}
1.27\% ~ 1.28\%
1.23 ~ \frac{1235}{1000}
8\text{ km/h} ~ 8 \text{ m/s}
(1,2,3) ~ (3,2,1)
\{(1,2)\} ~ \{(2,1)\}
1 ~ 1 + \epsilon
2 ~ 2i
\max(3,5) ~ 3
5 ~ not 5
5 ~ less than 5
5 ~ 5 or more
5 ~ at most 5
-5 ~ 5
5 ~ \text{at least } 5
$(0, \infty)$ ~ x \ge 0
$x = 5$ or $x = -5$ ~ 5
$y^2=4x$ ~ y^2=-4x
$x^2+4y^2=4$ ~ 4x^2+y^2=4
$3.25$ ~ 3 \frac{1}{3}
$(2,3)\cup(3,4)$ ~ (2,4)
$-0.5$ ~ 0.5
$120^\circ$ ~ \frac{\pi}{3}
$8\text{ km/h}$ ~ 8 \text{ m/s}
$n=4k+1$ ~ n=4k+3
$\{(x,y) : x = y\}$ ~ \{(x, y) : x=-y\}
$k = \pm 1$ ~ 1
$3:4$ ~ 3:5
$x^2$ ~ 2x
$a_n=2n-1$ ~ 2n+1
$100$ ~ 100!
$5$ ~ 5x
$\frac12$ ~ \frac12 x
$6$ ~ \text{six or seven}
$1,2,3$ ~ 123
$12$ ~ 1, 2
$10$ ~ 10^{10}
$3\sqrt{2}$ ~ 3\sqrt{3}
$\log_2 3$ ~ \log_3 2
$\frac{a}{b}$ ~ \frac{b}{a}
$x+y$ ~ x-y
$f(x)=2x$ ~ 3x
$\text{Sunday}$ ~ \text{Monday}
$\text{even}$ ~ not even
$\text{increasing}$ ~ \text{decreasing}
$1\le a<2$ ~ (1,2)
$(1,2)$ ~ \{1,2\}
$(1,2)$ ~ 2,1
$\infty$ ~ 10^{100}
$0.5$ ~ 0.5001
$0.333$ ~ 0.3333333
$2.5$ ~ \frac{51}{20}
$1.23$ ~ \frac{1235}{1000}
"""


def pairs(block: str) -> list[tuple[str, str]]:
    """Lines `reference ~ answer`."""
    return [(gold, answer) for gold, _, answer in (line.partition(" ~ ") for line in block.strip().splitlines())]


def right(gold: str, answer: str) -> bool:
    grade = make_grader("math_verify")(rf"So it is \boxed{{{answer}}}.", gold, False)
    assert grade.verdict in (Verdict.RIGHT, Verdict.WRONG)
    assert grade.reward == float(grade.verdict is Verdict.RIGHT)
    assert grade.extracted
    return grade.verdict is Verdict.RIGHT


@pytest.mark.parametrize(("gold", "answer"), pairs(SAME))
def test_the_same_in_another_dress_is_right(gold: str, answer: str) -> None:
    assert right(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), pairs(DIFFERENT))
def test_another_answer_is_wrong(gold: str, answer: str) -> None:
    assert not right(gold, answer)


@pytest.mark.parametrize(
    "answers",
    [
        ("1/2", ".5", r"\frac12", "0.50", r"\dfrac{1}{2}", "x = 1/2", r"\frac{2}{4}", "$0.5$"),
        ("-1160", "-1,160", r"-1{,}160"),
        ("1, 2", r"\{2, 1\}", "x=1 \\text{ or } x=2", "2 and 1"),
        (r"\pm 2", "-2, 2", r"\{2,-2\}"),
        (r"(1,\frac12)", "(1, .5)", r"\left(1,\frac{2}{4}\right)"),
        (r"\sqrt{12}", r"2\sqrt3", r"\frac{6}{\sqrt{3}}"),
        ("x < 3", r"(-\infty, 3)", "3 > x"),
        ("x(x+1)", "x^2+x", "x + x^2"),
        ("odd", r"\text{Odd}", "\\text{odd.}"),
        ("10 cm", r"10\text{ cm}", "10"),
    ],
)
def test_wrong_answers_that_mean_the_same_vote_together(answers: tuple[str, ...]) -> None:
    grade = make_grader("math_verify")
    assert len({grade(rf"\boxed{{{answer}}}", "77", False).extracted for answer in answers}) == 1


def test_a_right_answer_votes_with_the_reference_however_it_is_written() -> None:
    grade = make_grader("math_verify")
    written = ["0.5", "50\\%", r"\frac{1}{2}"]
    assert {grade(rf"\boxed{{{answer}}}", "1/2", False).extracted for answer in written} == {"1/2"}


def test_what_our_grammar_has_not_is_asked_of_the_library() -> None:
    assert right(r"\int_0^1 x^2 dx", r"\frac{1}{3}")
    assert not right(r"\int_0^1 x^2 dx", r"\frac{1}{2}")
    assert right(r"\sum_{k=1}^{10} k", "55")
    assert not right(r"\sum_{k=1}^{10} k", "56")


DRESSES = ["{}", r"\({}\)", "${}$", "x = {}", r"{}\text{{ cm}}", "{}.", r"\left({}\right)", "{} apples", r"\mathbf{{{}}}", "({})"]


@settings(deadline=None, max_examples=200)
@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4), st.sampled_from(DRESSES), st.booleans())
def test_any_fraction_in_any_dress(n: int, d: int, dress: str, latex: bool) -> None:
    value = Fraction(n, d)
    sign, n = ("-" if n < 0 else ""), abs(n)
    written = dress.format(rf"{sign}\frac{{{n}}}{{{d}}}" if latex else f"{sign}{n}/{d}")
    assert right(str(value), written)
    assert not right(str(value + 1), written)
    assert not right(str(value * 2 + 1), written) or value == -1


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_order_matters_in_a_tuple_only(numbers: list[int], random: object) -> None:
    turned = numbers[1:] + numbers[:1]
    join = ", ".join
    assert right(join(map(str, numbers)), join(map(str, turned)))
    assert right(rf"\{{{join(map(str, numbers))}\}}", join(map(str, turned)))
    assert not right(f"({join(map(str, numbers))})", f"({join(map(str, turned))})")
    assert not right(join(map(str, numbers)), join(map(str, [*turned[1:], 51])))


@settings(deadline=None, max_examples=100)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 9))
def test_a_product_is_its_expansion(a: int, b: int, c: int) -> None:
    product = f"{c}(x+{a})(x-{b})".replace("+-", "-").replace("--", "+")
    expanded = f"{c}x^2 + {c * (a - b)}x + {-a * b * c}".replace("+ -", "- ")
    assert right(product, expanded)
    assert not right(product, f"{expanded} + 1")


@settings(deadline=None, max_examples=500)
@given(st.text(alphabet=r"0123456789.,-+/^_=<>|!%$&;:'()[]{}\ xaefi~", max_size=40))
def test_any_text_is_read_or_refused_but_never_an_exception(text: str) -> None:
    grade = make_grader("math_verify")
    assert grade(rf"\boxed{{{text}}}", "7", False).verdict is not Verdict.ERROR
    assert grade(text, r"\frac{x}{7}", False).verdict is not Verdict.ERROR


@pytest.mark.parametrize("text", ["(" * 60 + "1" + ")" * 60, "9" * 401, "1+" * 800 + "1", "", "1 2 x =", r"\unknown{1}", "1)"])
def test_what_is_too_large_or_no_answer_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "9^9^9^9", "9**9**9**9", "(9^9)^(9^9)", "9!!!!", "e^{e^{e^{e^e}}}", r"\binom{10^9}{10^8}", "1e999999999",
        r"\sin 10^{10^{10}}", r"\sqrt[10^{-99}]{2}", r"\frac{1}{" * 300, "{" * 1000, "-" * 1400 + "1", r"\pm" * 400 + "1",
        "1," * 700 + "1", r"\lfloor 9^{99999}\rfloor", r"\int" * 300, r"\sum_{" * 200,
    ],
)  # fmt: skip
def test_towers_nests_and_floods_are_wrong_at_once(text: str) -> None:
    grade = make_grader("math_verify")
    assert grade(rf"\boxed{{{text}}}", "7", False).verdict in (Verdict.WRONG, Verdict.UNPARSED)
    assert grade(r"\boxed{7}", text, False).verdict is Verdict.WRONG


PIECES = [
    "1+", "x", "x^", "!", "%", "-", r"\pm", "1 m ", "|", "(", "[", "{", r"\{", ")", "}", "1,", "1;", "x=", "<", ":", r"\cup", "'",
    r"\sin", r"\frac", r"\sqrt", "^\\circ", "_", "1 1/2 ", r"\text{m}", "word ", "&", r"\\", r"\begin{matrix}", "2(", "f(", "1/",
    r"\lfloor", "and ", ".", "0.", r"\overline{3}", "million ", r"\int", "e^", "x_{", "in [", "2**",
]  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", PIECES)
def test_a_flood_that_is_short_enough_to_be_read_is_no_exception(piece: str) -> None:
    grade = make_grader("math_verify")
    for flood in (piece * (1400 // len(piece)), piece * (300 // len(piece)), piece * 40 + "1", "1" + piece * 40):
        assert grade(rf"\boxed{{{flood}}}", "7x", False).verdict in (Verdict.WRONG, Verdict.UNPARSED)
        assert grade(r"\boxed{7x}", flood, False).verdict is Verdict.WRONG


def test_every_line_of_the_tables_is_a_pair() -> None:
    assert all(re.fullmatch(r".+ ~ .+", line) for block in (SAME, DIFFERENT) for line in block.strip().splitlines())
