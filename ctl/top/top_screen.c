/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/top_screen.h"

#include <curses.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/printable.h"
#include "base/size.h"
#include "ctl/output/format.h"
#include "ctl/output/table.h"
#include "gpumem.h"

#define LINE_MAX_BYTES 512
#define NAME_WIDTH     20
#define BAR_LEAST      8
#define WIDE_LEAST     100

/* Colours, as curses numbers pairs; those of gpumemctl map. */
enum pair { PAIR_NONE, PAIR_USED, PAIR_IDLE, PAIR_CACHED, PAIR_LINGERING, PAIR_OTHERS };

static SCREEN *screen;

/* Whether the terminal can put text at a place: "dumb" cannot. */
static bool can_move(void)
{
        const char *move = tigetstr("cup");

        return move && move != (const char *)-1;
}

int top_screen_open(void)
{
        const char *forbidden = getenv("NO_COLOR");

        if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
                return -ENOTTY;
        screen = newterm(NULL, stdout, stdin);
        if (!screen)
                return -EINVAL;
        if (!can_move()) {
                top_screen_close();
                return -EOPNOTSUPP;
        }
        (void)cbreak();
        (void)noecho();
        (void)keypad(stdscr, TRUE);
        (void)nodelay(stdscr, TRUE);
        (void)curs_set(0);
        if (has_colors() && !(forbidden && *forbidden)) {
                (void)start_color();
                (void)use_default_colors();
                (void)init_pair(PAIR_USED, COLOR_GREEN, -1);
                (void)init_pair(PAIR_IDLE, COLOR_YELLOW, -1);
                (void)init_pair(PAIR_CACHED, COLOR_CYAN, -1);
                (void)init_pair(PAIR_LINGERING, COLOR_RED, -1);
                (void)init_pair(PAIR_OTHERS, COLOR_MAGENTA, -1);
        }
        return 0;
}

void top_screen_close(void)
{
        if (!screen)
                return;
        (void)endwin();
        delscreen(screen);
        screen = NULL;
}

/* From a column on; returns the column behind it. What is written is cut at the screen's edges by hand: curses
 * would scroll at the last one. */
static PRINTF_LIKE(3, 4) int put(int y, int x, const char *format, ...)
{
        char text[LINE_MAX_BYTES];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        /* Curses counts a byte as a column. */
        printable_copy(text, sizeof(text), text, sizeof(text), PRINTABLE_ASCII);
        if (y >= 0 && y < LINES && x >= 0 && x < COLS)
                (void)mvaddnstr(y, x, text, COLS - x);
        return x + (int)strlen(text);
}

static void draw_head(const struct top *top, int y)
{
        const struct node_state *node = &top->node;
        char pool[16] = "all", now[16];
        time_t seconds = time(NULL);
        struct tm local;

        if (top->pool != PROTO_ALL_POOLS)
                (void)snprintf(pool, sizeof(pool), "%" PRIu32, top->pool);
        (void)localtime_r(&seconds, &local);
        (void)strftime(now, sizeof(now), "%H:%M:%S", &local);
        (void)attron(A_REVERSE);
        (void)put(y, 0, "%-*s", COLS, "");
        if (top->trouble)
                (void)put(y, 0, "gpumemd is away; it is asked again each second  q quit");
        else
                (void)put(y, 0, "gpumemd%s  %s  pools %u  blocks %u  sort %s%s  pool %s%s  h help",
                          top->is_ending ? " is ENDING" : "", now, node->pool_stats.n,
                          node->blocks.n_rows, top_sort_name(top->sort),
                          top->is_reverse ? ", reversed" : "", pool,
                          top->is_paused ? "  PAUSED" : "");
        (void)attroff(A_REVERSE);
}

static void draw_bar(int y, int x, int width, const unsigned cells[static TOP_PARTS])
{
        static const struct {
                chtype mark;
                enum pair pair;
        } parts[TOP_PARTS] = {
                [TOP_PART_USED] = {'|', PAIR_USED},
                [TOP_PART_IDLE] = {'i', PAIR_IDLE},
                [TOP_PART_CACHED] = {'=', PAIR_CACHED},
                [TOP_PART_LINGERING] = {'~', PAIR_LINGERING},
                [TOP_PART_OTHERS] = {'#', PAIR_OTHERS},
        };
        int at = put(y, x, "[");

        for (unsigned i = 0; i < TOP_PARTS; i++) {
                (void)attron(COLOR_PAIR(parts[i].pair));
                for (unsigned n = 0; n < cells[i] && at < COLS; n++)
                        (void)mvaddch(y, at++, parts[i].mark);
                (void)attroff(COLOR_PAIR(parts[i].pair));
        }
        (void)put(y, x + 1 + width, "]");
}

/* "" of a device that is well. */
static const char *trouble_of(const struct stats_row *stats)
{
        if (stats->driver == PROTO_DRIVER_STALLED)
                return "  STALLED";
        if (stats->driver == PROTO_DRIVER_LOST || stats->device == PROTO_DEVICE_LOST)
                return "  LOST";
        if (stats->device != PROTO_FIGURE_UNKNOWN && stats->device >= PROTO_DEVICE_WORN)
                return "  IN ERROR";
        return "";
}

static void draw_pool(const struct pool_row *pool, const struct stats_row *stats, int y)
{
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], tail[LINE_MAX_BYTES];
        unsigned cells[TOP_PARTS];
        int x, width;

        (void)snprintf(tail, sizeof(tail), " %11s of %11s%s",
                       size_format(stats->reserved, reserved), size_format(stats->max, max),
                       trouble_of(stats));
        x = put(y, 0, "%3" PRIu32 " %-*.*s ", pool->id, NAME_WIDTH, NAME_WIDTH, pool->name);
        width = COLS - x - 2 - (int)strlen(tail);
        if (width >= BAR_LEAST) {
                (void)top_bar(pool, stats, (unsigned)width, cells);
                draw_bar(y, x, width, cells);
                x += width + 2;
        }
        (void)put(y, x, "%s", tail);
}

/* What a row says, for a screen of either width. */
struct cells {
        char pid[16];
        char uid[16];
        char leased[TABLE_CELL_MAX];
        char idle[TABLE_CELL_MAX];
        char lingering[TABLE_CELL_MAX];
        char blocks[TABLE_CELL_MAX];
        char waiting[TABLE_CELL_MAX];
        char age[TABLE_CELL_MAX];
};

static bool is_wide(void)
{
        return COLS >= WIDE_LEAST;
}

static void put_cells(int y, const struct cells *cells, const char *state, const char *program)
{
        if (is_wide())
                (void)put(y, 0, "%8s %8s %-8s %11s %11s %11s %7s %7s %8.8s  %s", cells->pid,
                          cells->uid, state, cells->leased, cells->idle, cells->lingering,
                          cells->blocks, cells->waiting, cells->age, program);
        else
                (void)put(y, 0, "%7s %5s %-8s %6s %5s %6.6s %6s %4.4s %7.7s  %s", cells->pid,
                          cells->uid, state, cells->leased, cells->idle, cells->lingering,
                          cells->blocks, cells->waiting, cells->age, program);
}

static void draw_heading(int y)
{
        static const struct cells cells = {"PID",       "UID",    "LEASED",  "IDLE",
                                           "LINGERING", "BLOCKS", "WAITING", "AGE"};

        (void)attron(A_BOLD);
        put_cells(y, &cells, "STATE", "PROGRAM");
        (void)attroff(A_BOLD);
}

static void draw_row(const struct top_row *row, int y)
{
        void (*format)(char *cell, uint64_t value) = is_wide() ? format_bytes : format_short_bytes;
        struct cells cells = {.pid = "-", .uid = "-", .age = "-"};
        char program[LINE_MAX_BYTES];

        if (row->pid)
                (void)snprintf(cells.pid, sizeof(cells.pid), "%" PRIu32, row->pid);
        if (row->uid != LISTING_NOBODY)
                (void)snprintf(cells.uid, sizeof(cells.uid), "%" PRIu32, row->uid);
        format(cells.leased, row->n_leased);
        format(cells.idle, row->n_idle);
        format(cells.lingering, row->n_lingering);
        format_count(cells.blocks, row->n_blocks);
        format_count(cells.waiting, row->n_waiting);
        if (row->age_ms != LISTING_UNTOLD)
                format_time(cells.age, row->age_ms);
        (void)snprintf(program, sizeof(program), "%s%s%s", row->program ? row->program : "-",
                       row->container && *row->container ? "  in " : "",
                       row->container ? row->container : "");
        put_cells(y, &cells, row->state ? listed_client_name(row->state) : "ended", program);
}

static void draw_rows(struct top *top, int y)
{
        const struct node_state *node = &top->node;
        CLEANUP(freep)
        struct top_row *rows = NULL;
        unsigned n = 0;

        draw_heading(y++);
        if (top_rows_make((const void *)node->blocks.rows, node->blocks.n_rows,
                          (const void *)node->clients.rows, node->clients.n_rows, top->pool, &rows,
                          &n)) {
                (void)put(y, 0, "no memory");
                return;
        }
        top_rows_sort(rows, n, top->sort, top->is_reverse);
        if (top->first >= n)
                top->first = n ? n - 1 : 0;
        for (unsigned i = top->first; i < n && y < LINES; i++)
                draw_row(&rows[i], y++);
}

static void draw_help(void)
{
        static const char *const lines[] = {
                "s  sort by the next column; S by the one before; r reverse",
                "p  rows of the next pool, and of all; P of the one before",
                "up, down, page up, page down, home: rows that do not fit",
                "space  pause, and go on",
                "h  this help, and back",
                "q  quit",
                "",
                "|  leased, and not idle, or declared: held since before gpumemd's start",
                "i  idle    =  cached    ~  lingering",
                "#  used on the device by others than gpumemd's clients, as NVML says",
                "A bar is the whole device, or what a pool of pinned memory may be.",
                "Behind it: RESERVED of OF, the pool's limit, as in gpumemctl stats.",
        };

        for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
                (void)put((int)i + 1, 2, "%s", lines[i]);
}

/* As many lines as it takes. */
static void draw_trouble(const char *text, int y)
{
        size_t n = strlen(text);

        for (size_t at = 0; COLS > 0 && at < n && y < LINES; at += (size_t)COLS)
                (void)put(y++, 0, "%s", text + at);
}

void top_screen_draw(struct top *top)
{
        const struct pool_stats *pool_stats = &top->node.pool_stats;
        int y = 0;

        (void)erase();
        draw_head(top, y++);
        if (top->shows_help) {
                draw_help();
        } else if (top->trouble) {
                draw_trouble(top->trouble, y);
        } else {
                for (uint32_t i = 0; i < pool_stats->n; i++)
                        draw_pool(&pool_stats->pools[i], &pool_stats->stats[i], y++);
                draw_rows(top, y);
        }
        (void)refresh();
}

/* Behind the last pool are all of them. */
static void choose_pool(struct top *top, int step)
{
        const struct pool_stats *pool_stats = &top->node.pool_stats;
        uint32_t at = pool_stats->n;

        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->pools[i].id == top->pool)
                        at = i;
        }
        at = (uint32_t)(at + pool_stats->n + 1 + (uint32_t)step) % (pool_stats->n + 1);
        top->pool = at < pool_stats->n ? pool_stats->pools[at].id : PROTO_ALL_POOLS;
        top->first = 0;
}

static void choose_sort(struct top *top, int step)
{
        top->sort = (enum top_sort)(((int)top->sort + TOP_SORTS + step) % TOP_SORTS);
        top->first = 0;
}

static void scroll_by(struct top *top, int step)
{
        if (step < 0 && top->first < (unsigned)-step)
                top->first = 0;
        else
                top->first += (unsigned)step;
}

enum top_wish top_screen_take_key(struct top *top)
{
        int key = getch();

        switch (key) {
        case ERR:
                return TOP_NOTHING;
        case 'q':
                return TOP_QUIT;
        case 's':
        case 'S':
                choose_sort(top, key == 's' ? 1 : -1);
                break;
        case 'r':
                top->is_reverse = !top->is_reverse;
                break;
        case 'p':
        case 'P':
                choose_pool(top, key == 'p' ? 1 : -1);
                break;
        case ' ':
                top->is_paused = !top->is_paused;
                return top->is_paused ? TOP_REDRAW : TOP_ASK;
        case 'h':
        case '?':
                top->shows_help = !top->shows_help;
                break;
        case KEY_UP:
                scroll_by(top, -1);
                break;
        case KEY_DOWN:
                scroll_by(top, 1);
                break;
        case KEY_PPAGE:
                scroll_by(top, -LINES / 2);
                break;
        case KEY_NPAGE:
                scroll_by(top, LINES / 2);
                break;
        case KEY_HOME:
                top->first = 0;
                break;
        default:
                break;
        }
        return TOP_REDRAW;
}
